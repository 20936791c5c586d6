"""A processing algorithm for QGIS and EnMAP-Box: denoise a hyperspectral raster with hyperdlw.

QGIS brings its own Python, so the command ``hyperdlw`` of another environment is run. Its path is a
parameter, and else the variable HYPERDLW, and else whatever the shell finds.
"""

import os
import subprocess

from qgis.core import (
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterDestination,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterString,
)

OWN = ("PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "GDAL_DATA", "PROJ_LIB")
"""Variables that are meant for the Python of QGIS."""


class HyperdlwDenoise(QgsProcessingAlgorithm):
    """``hyperdlw denoise INPUT OUTPUT`` with its progress in the log of QGIS."""

    def name(self):
        return "hyperdlw_denoise"

    def displayName(self):
        return "Denoise a hyperspectral raster (hyperdlw)"

    def group(self):
        return "Hyperspectral"

    def groupId(self):
        return "hyperspectral"

    def shortHelpString(self):
        return (
            "Removes noise, stripes and dead columns. Bands, wavelengths and map coordinates stay as "
            "they are. Leave the model empty for the default; a larger strength is smoother."
        )

    def createInstance(self):
        return HyperdlwDenoise()

    def initAlgorithm(self, config=None):
        number = QgsProcessingParameterNumber
        self.addParameter(QgsProcessingParameterRasterLayer("INPUT", "Noisy raster"))
        self.addParameter(QgsProcessingParameterString("MODEL", "Model", "", optional=True))
        self.addParameter(
            number("STRENGTH", "Strength", number.Double, None, optional=True, minValue=0.001)
        )
        self.addParameter(
            QgsProcessingParameterString(
                "PROGRAM", "Path of hyperdlw", os.environ.get("HYPERDLW", "hyperdlw")
            )
        )
        self.addParameter(QgsProcessingParameterRasterDestination("OUTPUT", "Restored raster"))

    def processAlgorithm(self, parameters, context, feedback):
        source = self.parameterAsRasterLayer(parameters, "INPUT", context).source()
        target = self.parameterAsOutputLayer(parameters, "OUTPUT", context)
        command = [self.parameterAsString(parameters, "PROGRAM", context), "denoise"]
        command += [source, target, "--overwrite"]
        model = self.parameterAsString(parameters, "MODEL", context)
        if model:
            command += ["--model", model]
        if parameters.get("STRENGTH") is not None:
            command += ["--strength", str(self.parameterAsDouble(parameters, "STRENGTH", context))]
        feedback.pushCommandInfo(" ".join(command))
        kept = {k: v for k, v in os.environ.items() if k not in OWN}
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        try:
            child = subprocess.Popen(command, env=kept, **pipe)
        except OSError as error:
            raise QgsProcessingException(
                f"hyperdlw cannot be started ({error}); give its path as the parameter PROGRAM"
            ) from error
        line = ""
        for line in child.stdout:
            feedback.pushInfo(line.rstrip())
            if feedback.isCanceled():
                child.terminate()
        if child.wait() != 0:
            raise QgsProcessingException(line.strip() or f"hyperdlw ended with {child.returncode}")
        return {"OUTPUT": target}
