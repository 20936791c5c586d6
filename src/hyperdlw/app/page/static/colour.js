// Colour maps as tables of 256 RGBA pixels, and the limits of a stretch.

// The server writes it: the colours of weights are those of the pictures.
import { HEAT } from './heat.js';

// Blue, near white, red: equal lightness on both sides of zero.
const BOTH = [[18, 63, 132], [58, 117, 186], [139, 181, 219], [212, 226, 238], [246, 246, 245], [245, 220, 207],
  [228, 160, 130], [190, 84, 66], [128, 22, 40]];
const GREY = [[0, 0, 0], [255, 255, 255]];

const little = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
export const pixel = (r, g, b) => (little ? (255 << 24) | (b << 16) | (g << 8) | r : (r << 24) | (g << 16) | (b << 8) | 255) >>> 0;

function table(stops) {
  const out = new Uint32Array(256);
  for (let i = 0; i < 256; i += 1) {
    const at = (i / 255) * (stops.length - 1);
    const k = Math.min(Math.floor(at), stops.length - 2);
    const mix = [0, 1, 2].map((c) => Math.round(stops[k][c] + (at - k) * (stops[k + 1][c] - stops[k][c])));
    out[i] = pixel(...mix);
  }
  return out;
}

export const MAPS = { heat: table(HEAT), both: table(BOTH), grey: table(GREY) };
export const UNKNOWN = pixel(200, 200, 200);
export const WEIGHTS = [0.03, 10];

// A sample of about 16 000 finite numbers (above ``least``), sorted. The odd step walks over all
// columns of an image; an even one would see the same few, and perhaps only the dead ones.
export function sorted(values, least = -Infinity) {
  const step = values.length > 32768 ? Math.floor(values.length / 16384) | 1 : 1;
  const out = new Float32Array(Math.ceil(values.length / step));
  let n = 0;
  for (let i = 0; i < values.length; i += step) {
    const v = values[i];
    if (v > least) { out[n] = v; n += 1; }
  }
  return out.subarray(0, n).sort();
}

export const quantile = (sample, q) => (sample.length ? sample[Math.round(q * (sample.length - 1))] : 0);

export function limits(values, low, high) {
  const sample = sorted(values);
  const a = quantile(sample, low / 100);
  const b = quantile(sample, high / 100);
  return b > a ? [a, b] : [a, a + 1];
}

export function paint(values, [a, b], map, out) {
  const factor = 255 / (b - a);
  for (let i = 0; i < values.length; i += 1) {
    const v = values[i];
    if (v !== v) { out[i] = UNKNOWN; continue; }
    const at = (v - a) * factor;
    out[i] = map[at <= 0 ? 0 : at >= 255 ? 255 : (at + 0.5) | 0];
  }
}

export function paintColour(planes, pairs, out) {
  const [r, g, b] = planes;
  const f = pairs.map(([lo, hi]) => 255 / (hi - lo));
  const bytes = new Uint8ClampedArray(3);
  for (let i = 0; i < r.length; i += 1) {
    if (r[i] !== r[i] || g[i] !== g[i] || b[i] !== b[i]) { out[i] = UNKNOWN; continue; }
    bytes[0] = (r[i] - pairs[0][0]) * f[0];
    bytes[1] = (g[i] - pairs[1][0]) * f[1];
    bytes[2] = (b[i] - pairs[2][0]) * f[2];
    out[i] = pixel(bytes[0], bytes[1], bytes[2]);
  }
}

export function paintWeights(values, out) {
  const [a, b] = WEIGHTS.map(Math.log);
  for (let i = 0; i < values.length; i += 1) {
    const w = values[i];
    if (!(w > 0)) { out[i] = UNKNOWN; continue; }
    const at = ((Math.log(w) - a) / (b - a)) * 255;
    out[i] = MAPS.heat[at <= 0 ? 0 : at >= 255 ? 255 : (at + 0.5) | 0];
  }
}
