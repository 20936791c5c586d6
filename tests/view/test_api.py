"""The server's answers, and its refusals."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from hyperdlw import Cube, denoise, open_cube, save_cube
from hyperdlw.app import listing
from hyperdlw.app.page import server, serving
from hyperdlw.app.page.desk import Desk, Listed
from hyperdlw.app.page.job import JobRequest, list_choices
from hyperdlw.app.page.runner import MOST_KEPT
from hyperdlw.app.page.session import Session, lean
from hyperdlw.errors import BadOption
from hyperdlw.models import defaults
from hyperdlw.pipeline import HEAT

TOKEN = "a-token-for-tests"
HOST = "127.0.0.1:8000"
JOB = {"model": "tv", "weights": "uniform", "strength": 1.0}


def client_of(session: Session) -> TestClient:
    app = server.build_app(Desk(session), TOKEN, frozenset({HOST}))
    return TestClient(app, base_url=f"http://{HOST}/{TOKEN}/", raise_server_exceptions=True)


@pytest.fixture
def client(session: Session) -> TestClient:
    return client_of(session)


def finish(session: Session) -> None:
    assert session.job is not None
    assert session.job.thread is not None
    session.job.thread.join(60)
    assert session.job.progress == "done", session.job.message


def run(client: TestClient, session: Session, **job: object) -> None:
    assert client.post("api/job", json={**JOB, **job}).status_code == 202
    finish(session)


# --- what is served


def test_page_names_only_files_it_serves(client):
    page = client.get("")
    assert page.status_code == 200
    names = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    assert "static/main.js" in names
    modules = {"static/main.js"}
    for name in names:
        assert client.get(name).status_code == 200, name
    seen: set[str] = set()
    while modules - seen:
        name = (modules - seen).pop()
        seen.add(name)
        answer = client.get(name)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        modules |= {f"static/{m}" for m in re.findall(r"from '\./([^']+)'", answer.text)}
    assert len(seen) >= 5


def test_facts(client, session):
    facts = client.get("api/cube").json()
    assert facts["shape"] == [6, 20, 24]
    np.testing.assert_allclose(facts["wavelengths"], session.cube.wavelengths)
    assert facts["name"] == "scene one.npz"
    assert facts["result"] is None


def test_band_is_the_cube_in_float32(client, session):
    for band in range(6):
        answer = client.get(f"api/band/noisy/{band}")
        plane = np.frombuffer(answer.content, "<f4").reshape(20, 24)
        np.testing.assert_array_equal(
            plane, np.where(session.cube.valid[band], session.cube.data[band], np.nan)
        )


def test_spectrum_is_the_cube(client, session):
    found = client.get("api/spectrum", params={"row": 7, "col": 11}).json()
    assert found["noisy"] == session.cube.data[:, 7, 11].tolist()
    assert "restored" not in found
    hole = client.get("api/spectrum", params={"row": 3, "col": 4}).json()["noisy"]
    assert hole[2] is None
    assert None not in hole[:2]


def test_choices_are_the_registries(client, session):
    from hyperdlw import models
    from hyperdlw.networks import files as store
    from hyperdlw.weights import list_formulas

    found = client.get("api/choices").json()
    fitting = [n for n, e in models.list_models("model").items() if e.bands in (None, 6)]
    assert list(found["models"]) == fitting
    formulas = set(list_formulas())
    assert formulas <= set(found["weights"]) <= formulas | set(store.list_networks())
    assert found["weight"] in found["weights"]
    assert "colour-T" not in found["weights"]
    assert "colour-T" in list_choices(3)["weights"]


def test_the_listing_is_that_of_the_registries():
    """If this fails, run 'make listing' and commit what it wrote."""
    assert listing.read_listing() == listing.make_listing()


# --- jobs


def test_job_is_denoise(client, session):
    run(client, session, strength=2.0)
    assert session.result is not None
    plain = denoise(session.cube, model="tv", weights="uniform", strength=2.0)
    np.testing.assert_array_equal(session.result.cube.data, plain.cube.data)
    status = client.get("api/status").json()
    assert status["result"]["strength"] == 2.0
    assert status["job"]["progress"] == "done"
    band = np.frombuffer(client.get("api/band/restored/4").content, "<f4").reshape(20, 24)
    np.testing.assert_array_equal(band, plain.cube.data[4])
    weight = np.frombuffer(client.get("api/band/weights/4").content, "<f4").reshape(20, 24)
    np.testing.assert_array_equal(weight, plain.weights[4])


@pytest.mark.parametrize("model", ["nn", "tv", "tvs"])
def test_slider_ends_at_the_plain_run(client, session, model):
    """The warm preview is shown and then replaced by what ``denoise`` gives for that strength."""
    run(client, session, model=model, weights="precision")
    before = session.version
    run(client, session, model=model, weights="precision", strength=3.0)
    assert session.version >= before + 2, "a preview and a result"
    plain = denoise(session.cube, model=model, weights="precision", strength=3.0)
    np.testing.assert_array_equal(session.layer("restored"), plain.cube.data)
    np.testing.assert_array_equal(session.result.weights, plain.weights)


def test_preview_is_nearer_to_the_new_solution(client, session, monkeypatch):
    run(client, session)
    old = session.layer("restored").copy()
    previews = []
    real = session.runner.show

    def spy(values):
        real(values)
        previews.append(session.layer("restored").copy())

    monkeypatch.setattr(session.runner, "show", spy)
    run(client, session, strength=4.0)
    new = session.layer("restored")
    ok = session.cube.valid
    (preview,) = previews
    assert np.linalg.norm((preview - new)[ok]) < 0.5 * np.linalg.norm((old - new)[ok])


def test_slider_keeps_the_hash_of_the_network(client, session):
    run(client, session, weights="T")
    networks = session.result.report.networks
    run(client, session, weights="T", strength=0.5)
    assert networks
    assert session.result.report.networks == networks
    assert session.result.report.weights == "T"


def test_jobs_wait_for_each_other(client, session, gate, until, monkeypatch):
    from hyperdlw.app.page import session as module

    monkeypatch.setattr(module, "MOST_WAITING", 2)
    assert client.post("api/job", json=JOB).status_code == 202
    gate.reached.wait(60)
    for strength in (2, 3):
        assert client.post("api/job", json={**JOB, "strength": strength}).status_code == 202
    full = client.post("api/job", json=JOB)
    assert full.status_code == 409
    assert "cancel" in full.json()["error"]
    waiting = client.get("api/status").json()["waiting"]
    assert [(j["number"], j["strength"]) for j in waiting] == [(2, 2.0), (3, 3.0)]
    client.post("api/cancel/2")
    gate.opened.set()
    until(lambda: [j.number for j in session.log] == [1, 3])
    assert session.result.report.strength == 3.0
    assert client.get("api/status").json()["shown"] == 3


def test_a_result_can_be_taken_back(client, session):
    run(client, session)
    first = session.result
    run(client, session, strength=4.0)
    assert session.result is not first
    before = session.version
    status = client.post("api/show/1").json()
    assert (status["shown"], session.result) == (1, first)
    assert status["version"] > before
    assert [j["held"] for j in status["log"]] == [True, True]
    assert client.post("api/show/7").status_code == 404
    # The slider goes on from the last run, whatever is shown.
    run(client, session, strength=2.0)
    plain = denoise(session.cube, **{**JOB, "strength": 2.0})
    np.testing.assert_array_equal(session.layer("restored"), plain.cube.data)


def test_results_that_take_too_much_are_let_go(client, session, monkeypatch):
    from hyperdlw.app.page import session as module

    monkeypatch.setattr(module, "MOST_HELD", 1)
    run(client, session)
    run(client, session, strength=4.0)
    assert [j["held"] for j in client.get("api/status").json()["log"]] == [False, True]
    assert client.post("api/show/1").status_code == 404


def test_options_reach_denoise(client, session):
    given = {"range": [0, 1], "columns": False, "fill": True, "paper": True, "uncertainty": True}
    run(client, session, **given)
    plain = denoise(session.cube, **{**JOB, **given, "range": (0, 1)})
    np.testing.assert_array_equal(session.result.cube.data, plain.cube.data)
    np.testing.assert_array_equal(session.result.uncertainty, plain.uncertainty)
    for kind in ("uncertainty", "removed", "flags", "invented", "record", "audit"):
        assert client.get(f"api/export/{kind}").status_code == 200, kind


def test_exports_are_the_products_of_denoise(client, session, tmp_path):
    run(client, session, model=defaults.MODEL, weights=defaults.WEIGHTS)
    assert "<svg" in client.get("api/export/audit").text
    noise = client.get("api/export/noise").text.splitlines()
    assert len(noise) == 1 + session.cube.bands
    path = tmp_path / "invented.npz"
    path.write_bytes(client.get("api/export/invented").content)
    np.testing.assert_array_equal(open_cube(path).data, session.result.invented)


def test_the_log_runs_again(client, session, file, tmp_path, monkeypatch):
    """Commands and Python of the log give what the page shows."""
    import shlex

    from hyperdlw.app.cli.main import main

    run(client, session, strength=2.0, range=[0, 1], columns=False)
    lines = client.get("api/export/command").text.splitlines()
    assert lines[0] == "#!/bin/sh"
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr("sys.argv", shlex.split(lines[1]))
    with pytest.raises(SystemExit, match="0"):
        main()
    made = file.parent / "scene one-run1.npz"
    ok = session.cube.valid
    np.testing.assert_array_equal(open_cube(made).data[ok], session.result.cube.data[ok])
    made.unlink()
    exec(client.get("api/export/python").text, {})
    np.testing.assert_array_equal(open_cube(made).data[ok], session.result.cube.data[ok])


def test_region_has_mean_and_deviation(client, session):
    run(client, session)
    found = client.get("api/region?top=2&left=3&bottom=9&right=7").json()
    part = np.where(session.cube.valid, session.cube.data, np.nan)[:, 2:9, 3:7]
    assert found["pixels"] == 28
    np.testing.assert_allclose(found["noisy"], np.nanmean(part, axis=(1, 2)), rtol=1e-5)
    np.testing.assert_allclose(found["noisy_deviation"], np.nanstd(part, axis=(1, 2)), rtol=1e-5)
    assert {"restored", "weights_deviation"} <= set(found)
    for wrong in ("top=9&left=3&bottom=2&right=7", "top=0&left=0&bottom=21&right=7", "top=0"):
        assert client.get(f"api/region?{wrong}").status_code in (400, 404)


def test_another_file_from_the_list(file, session, tmp_path):
    other = session.cube.with_data(session.cube.data + 1)
    entries = [
        Listed("one", lambda: session),
        Listed("two", lambda: Session(other, "two.npz")),
        Listed("broken", lambda: Session(open_cube(tmp_path / "missing.npz"), "broken")),
    ]
    desk = Desk(session, entries)
    client = TestClient(server.build_app(desk, TOKEN, frozenset({HOST})), f"http://{HOST}/{TOKEN}/")
    assert client.get("api/cube").json()["files"] == ["one", "two", "broken"]
    assert client.post("api/open/2").status_code == 400
    assert desk.session is session, "what lies there stays when another cannot be read"
    assert client.post("api/open/3").status_code == 404
    assert client.post("api/open/1").json()["file"] == 1
    assert client.get("api/cube").json()["name"] == "two.npz"
    assert session.closing, "jobs of the cube before are stopped"
    desk.close()


def test_map_coordinates_are_told(session):
    from dataclasses import replace

    place = {"transform": (30.0, 0, 5e5, 0, -30.0, 4e6), "crs": 'PROJCS["WGS 84 / UTM 10N",X]'}
    cube = replace(session.cube, metadata={**session.cube.metadata, **place})
    facts = Session(cube, "x").facts()
    assert facts["transform"] == [30, 0, 5e5, 0, -30, 4e6]
    assert facts["system"] == "WGS 84 / UTM 10N"


def test_advice_is_that_of_the_library(client, session):
    from hyperdlw import advise

    found = client.get("api/advice").json()
    assert found["settings"] == dict(advise(session.cube).settings)
    assert set(found["reasons"]) >= {"model", "strength"}


def test_cancel_keeps_the_last_result(client, session, gate):
    gate.opened.set()
    run(client, session)
    shown = session.layer("restored")
    gate.opened.clear()
    gate.reached.clear()
    assert client.post("api/job", json={**JOB, "strength": 5}).status_code == 202
    gate.reached.wait(60)
    client.post("api/cancel")
    session.job.thread.join(60)
    assert session.job.progress == "cancelled"
    assert session.layer("restored") is shown
    gate.opened.set()
    run(client, session, strength=2)


def test_job_that_fails_says_why(client, session, monkeypatch):
    from hyperdlw import pipeline
    from hyperdlw.errors import BadInput

    def broken(*given, **named):
        raise BadInput("the cube is made of cheese")

    monkeypatch.setattr(pipeline, "denoise", broken)
    client.post("api/job", json=JOB)
    session.job.thread.join(60)
    job = client.get("api/status").json()["job"]
    assert job["progress"] == "failed"
    assert job["message"] == "the cube is made of cheese"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"{" * 3000,
        b"x" * 5000,
        json.dumps({**JOB, "strength": float("nan")}).encode(),
        json.dumps({**JOB, "strength": float("inf")}).encode(),
        json.dumps({**JOB, "strength": -1}).encode(),
        json.dumps({**JOB, "strength": 1e9}).encode(),
        json.dumps({**JOB, "strength": True}).encode(),
        json.dumps({**JOB, "strength": "1"}).encode(),
        json.dumps({**JOB, "range": [1, 0]}).encode(),
        json.dumps({**JOB, "range": [0, "1"]}).encode(),
        json.dumps({**JOB, "model": "lrtv", "rank": 0}).encode(),
        json.dumps({**JOB, "model": "lrtv", "rank": 2.5}).encode(),
        json.dumps({**JOB, "fill": 1}).encode(),
        json.dumps({**JOB, "quality": "superb"}).encode(),
        json.dumps({**JOB, "memory": "1T"}).encode(),
        json.dumps({**JOB, "model": "../tv"}).encode(),
        json.dumps({**JOB, "model": ["tv"]}).encode(),
        json.dumps({**JOB, "weights": "/etc/passwd"}).encode(),
        json.dumps({**JOB, "weights": "uniform*scene one.npz"}).encode(),
        json.dumps({**JOB, "weights": "oracle"}).encode(),
        json.dumps(JOB).encode().replace(b": 1.0", b": " + b"9" * 3000),
        b'{"strength": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
    ],
)
def test_nonsense_jobs_are_refused(client, session, body):
    answer = client.post("api/job", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert session.job is None


# --- refusals


@pytest.mark.parametrize("path", ["", "api/cube", "static/main.js", "api/band/noisy/0"])
@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", "%C3%A9", TOKEN.upper()])
def test_wrong_token(client, token, path):
    answer = client.get(f"http://{HOST}/{token}/{path}")
    assert answer.status_code == 403
    assert "main.js" not in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "[::1]:8000", ""]
)
def test_foreign_host(client, host):
    assert client.get("api/cube", headers={"Host": host}).status_code == 421


def test_foreign_origin_cannot_start_a_job(client, session):
    answer = client.post("api/job", json=JOB, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert session.job is None
    own = client.post("api/job", json=JOB, headers={"Origin": f"http://{HOST}"})
    assert own.status_code == 202
    finish(session)


@pytest.mark.parametrize(
    "path",
    [
        "api/band/noisy/1000000000",
        "api/band/noisy/6",
        "api/band/noisy/-1",
        "api/band/noisy/nan",
        "api/band/noisy/1e0",
        "api/band/noisy/%D9%A1",
        "api/band/noisy/" + "9" * 5000,
        "api/band/noisy/0.5",
        "api/band/restored/0",
        "api/band/weights/0",
        "api/band/..%2f..%2f..%2fetc%2fpasswd/0",
        "api/band/__class__/0",
        "api/band/cube/0",
        "api/spectrum",
        "api/spectrum?row=1",
        "api/spectrum?row=20&col=0",
        "api/spectrum?row=-1&col=0",
        "api/spectrum?row=nan&col=0",
        "api/spectrum?row=0&col=1000000000",
        "api/export/restored",
        "api/export/..%2fsession",
        "api/export/picture?bands=1,2",
        "api/export/picture?bands=1,2,99",
        "api/export/report?pins=a,b",
        "static/..%2fserver.py",
        "static/%2e%2e%2fserver.py",
        "static/../server.py",
        "static//etc/passwd",
        "static/server.py",
        "static/",
        "nothing",
        "api/job",
    ],
)
def test_outside_the_cube_is_4xx(client, path):
    answer = client.get(path)
    assert 400 <= answer.status_code < 500, answer.status_code
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_pins_outside_the_image_are_refused(client, session):
    run(client, session)
    assert client.get("api/export/report?pins=999,0").status_code == 404


def test_answers_cannot_be_framed_or_leak_the_address(client):
    for answer in (client.get(""), client.get(f"http://{HOST}/wrong/")):
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_hundred_parallel_requests(address, session):
    """Each is answered with the right numbers or refused; the server is well afterwards."""

    def ask(i: int) -> tuple[int, int, bytes]:
        band = i % 8
        answer = client.get(f"{address}api/band/noisy/{band}")
        return band, answer.status_code, answer.content

    many = httpx.Limits(max_connections=100)
    with httpx.Client(timeout=60, limits=many) as client, ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(ask, range(100)))
    for band, code, content in answers:
        if band >= 6:
            assert code in (404, 429)
        elif code == 200:
            plane = np.frombuffer(content, "<f4").reshape(20, 24)
            ok = session.cube.valid[band]
            np.testing.assert_array_equal(plane[ok], session.cube.data[band][ok])
        else:
            assert code == 429
    assert any(code == 200 for _, code, _ in answers)
    assert httpx.get(f"{address}api/status").status_code == 200


def test_flood_is_refused(monkeypatch, session):
    monkeypatch.setattr(server, "MOST_REQUESTS", 0)
    assert client_of(session).get("api/cube").status_code == 429


# --- events


def test_events_tell_of_a_job_to_its_end(address, session):
    seen = []
    with httpx.stream("GET", f"{address}api/events", timeout=60) as stream:
        for line in stream.iter_lines():
            if not line.startswith("data: "):
                continue
            status = json.loads(line[6:])
            if not seen:
                assert httpx.post(f"{address}api/job", json=JOB).status_code == 202
            seen.append(status)
            if status["job"] and not status["job"]["running"]:
                break
    assert seen[0]["job"] is None
    assert seen[-1]["job"]["progress"] == "done"
    assert seen[-1]["version"] > seen[0]["version"]


def test_closing_the_page_ends_its_job(address, session, gate, monkeypatch, until):
    monkeypatch.setattr(server, "GRACE", 0.05)
    with httpx.stream("GET", f"{address}api/events", timeout=60) as stream:
        stream_lines = stream.iter_lines()  # held: the stream closes with it
        next(stream_lines)
        assert httpx.post(f"{address}api/job", json=JOB).status_code == 202
        assert gate.reached.wait(60)
        assert session.listeners == 1
    until(lambda: session.job.progress == "cancelled")
    assert session.listeners == 0
    assert httpx.get(f"{address}api/status").status_code == 200


def test_a_second_page_keeps_the_job(address, session, gate, monkeypatch, until):
    monkeypatch.setattr(server, "GRACE", 0.05)
    with httpx.stream("GET", f"{address}api/events", timeout=60) as stays:
        stays_lines = stays.iter_lines()  # held: the stream closes with it
        next(stays_lines)
        with httpx.stream("GET", f"{address}api/events", timeout=60) as goes:
            goes_lines = goes.iter_lines()
            next(goes_lines)
            httpx.post(f"{address}api/job", json=JOB)
            assert gate.reached.wait(60)
        until(lambda: session.listeners == 1)
        time.sleep(0.3)
        assert session.job.running
        gate.opened.set()
        finish(session)


def test_listeners_are_limited(address, session, monkeypatch):
    monkeypatch.setattr(server, "MOST_LISTENERS", 0)
    assert httpx.get(f"{address}api/events").status_code == 429


def test_server_stops_while_a_job_and_a_page_are_open(address, session, gate):
    """The fixture checks that the server's thread ends."""
    holding = threading.Event()

    def follow() -> None:
        with httpx.stream("GET", f"{address}api/events", timeout=60) as stream:
            for _ in stream.iter_lines():
                holding.set()

    page = threading.Thread(target=follow, daemon=True)
    page.start()
    assert holding.wait(60)
    httpx.post(f"{address}api/job", json=JOB)
    assert gate.reached.wait(60)
    session.close()
    page.join(30)
    assert not page.is_alive()
    assert session.job.progress == "cancelled"


# --- exports


def test_exports_read_back(client, session, tmp_path):
    run(client, session, weights="precision")
    for kind, values in (
        ("restored", session.result.cube.data),
        ("weights", session.result.weights),
    ):
        answer = client.get(f"api/export/{kind}")
        assert answer.status_code == 200
        assert f"scene_one-{kind}.npz" in answer.headers["content-disposition"]
        path = tmp_path / f"{kind}.npz"
        path.write_bytes(answer.content)
        back = open_cube(path)
        ok = session.cube.valid
        np.testing.assert_array_equal(back.data[ok], values[ok])
        np.testing.assert_allclose(back.wavelengths, session.cube.wavelengths)


def test_picture_is_three_panels(client, session):
    from PIL import Image

    run(client, session)
    answer = client.get("api/export/picture?bands=4,2,0")
    picture = Image.open(BytesIO(answer.content))
    assert picture.width > 3 * 240, "24 columns are shown ten times as large"
    assert picture.height > 200


def test_report_is_self_contained(client, session):
    run(client, session)
    text = client.get("api/export/report?pins=1,2;3,4").text
    assert "Spectrum at row 3, column 4" in text
    assert "data:image/png;base64," in text
    for outside in ("http:", "https:", "<script", "<link", "url(", "@import"):
        assert outside not in text
    assert text.count("src=") == text.count("src='data:image/png;base64,") == 3


def test_report_escapes_names(file, tmp_path):
    session = Session(open_cube(file), "<b>&.npz")
    client = client_of(session)
    run(client, session)
    text = client.get("api/export/report").text
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;.npz" in text


def test_folder_of_bands_is_sent_as_one_file(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "bands"
    save_cube(Cube.from_array(rng.integers(0, 255, (3, 9, 8)).astype(np.uint8)), f"{folder}/")
    session = Session(open_cube(folder), "bands")
    client = client_of(session)
    run(client, session)
    answer = client.get("api/export/restored")
    with zipfile.ZipFile(BytesIO(answer.content)) as archive:
        archive.extractall(tmp_path / "got")
    (inside,) = (tmp_path / "got").iterdir()
    np.testing.assert_array_equal(
        open_cube(inside).data, np.clip(np.rint(session.result.cube.data), 0, 255)
    )
    # PNG cannot hold float32: the weights come as npz.
    assert ".npz" in client.get("api/export/weights").headers["content-disposition"]


def test_exports_leave_nothing_behind(client, session, tmp_path, monkeypatch):
    import tempfile

    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    run(client, session)
    for kind in ("restored", "weights", "picture", "report"):
        assert client.get(f"api/export/{kind}").status_code == 200
    assert client.get("api/export/report?pins=99,99").status_code == 404
    assert list(place.iterdir()) == []


def test_save_writes_beside_the_output(file, tmp_path):
    place = tmp_path / "results"
    place.mkdir()
    session = Session(open_cube(file), file.name, place / "clean.npz")
    client = client_of(session)
    assert client.post("api/save/restored").status_code == 404
    run(client, session)
    for kind in ("restored", "weights", "picture", "report"):
        assert client.post(f"api/save/{kind}").status_code == 200, kind
    assert sorted(p.name for p in place.iterdir()) == [
        "clean-picture.png",
        "clean-report.html",
        "clean-weights.npz",
        "clean.npz",
    ]
    assert client.post("api/save/restored").status_code == 409


def test_save_without_output_is_refused(client, session):
    run(client, session)
    assert client.post("api/save/restored").status_code == 404


# --- memory


def test_full_mask_takes_no_memory(file):
    cube = open_cube(file)
    assert lean(cube) is cube, "a cube with holes keeps its mask"
    full = Cube.from_array(np.zeros((3, 4, 5)))
    slim = lean(full)
    assert slim.valid.strides == (0, 0, 0)
    np.testing.assert_array_equal(slim.valid, full.valid)


def test_large_states_are_not_kept(client, session, monkeypatch):
    from hyperdlw.app.page import runner as module

    assert MOST_KEPT > 2**20
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    run(client, session)
    before = session.version
    run(client, session, strength=2.0)
    assert session.version == before + 1, "no preview without a state"


def test_strength_may_be_auto():
    choices = list_choices(6)
    assert JobRequest.parse({**JOB, "strength": "auto"}, choices).strength == "auto"
    with pytest.raises(BadOption, match="strength is a number"):
        JobRequest.parse({**JOB, "strength": "automatic"}, choices)


def test_quality_is_that_of_denoise(client, session):
    own = {"model": defaults.MODEL, "weights": defaults.WEIGHTS}
    run(client, session, **own, quality="fast")
    plain = denoise(session.cube, quality="fast")
    assert session.result.report.weights == defaults.QUALITIES["fast"].weights
    np.testing.assert_array_equal(session.result.cube.data, plain.cube.data)
    assert "--quality fast" in client.get("api/export/command").text
    assert client.post("api/job", json={**JOB, "quality": "superb"}).status_code == 400


def test_marked_pixels_come_back_as_measured(client, session):
    run(client, session, protect=["4:7,5:9"])
    restored, noisy = session.result.cube.data, session.cube.data
    np.testing.assert_array_equal(restored[:, 4:7, 5:9], noisy[:, 4:7, 5:9])
    assert not np.array_equal(restored[:, 7:9, 5:9], noisy[:, 7:9, 5:9])
    command = client.get("api/export/command").text
    assert command.endswith("--model tv --weights uniform --protect 4:7,5:9\n")
    assert "protect=['4:7,5:9']" in client.get("api/export/python").text


def test_a_spectrum_of_the_list_is_protected(tmp_path, file):
    path = tmp_path / "gas.csv"
    path.write_text("1\n0\n-1\n0\n1\n0\n")
    session = Session(open_cube(file), file.name, protectable=[str(path)])
    request = JobRequest.parse({**JOB, "protect": [str(path)]}, session.choices)
    session.start(request).thread.join(60)
    plain = denoise(session.cube, model="tv", weights="uniform", protect=str(path))
    np.testing.assert_array_equal(session.result.cube.data, plain.cube.data)


@pytest.mark.parametrize(
    "wrong", ["1:2,3:4", ["/etc/passwd"], [3], ["1:2"], [["1:2,3:4"]], ["1:2,3:4"] * 33]
)
def test_only_regions_and_files_of_the_list_are_protected(wrong, choices):
    with pytest.raises(BadOption, match="protect"):
        JobRequest.parse({**JOB, "protect": wrong}, choices)


def test_port_in_use_is_one_sentence():

    place = serving.listen(0)
    assert place.proto == socket.IPPROTO_TCP  # or answers wait for acknowledgements
    place.listen(1)
    with pytest.raises(BadOption, match="--port"):
        serving.listen(place.getsockname()[1])
    place.close()


def test_package_carries_the_page(client):
    kinds = {".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml", ".js": "javascript"}
    for name in server.load_page():
        answer = client.get(f"static/{name}")
        assert kinds[Path(name).suffix] in answer.headers["content-type"]


def test_page_and_pictures_share_their_colours(client):
    found = client.get("static/heat.js").text.removeprefix("export const HEAT = ").rstrip(";\n")
    assert json.loads(found) == HEAT.tolist()
