// Small plots on canvas: spectra, histogram, colour scale.

import { MAPS, WEIGHTS } from './colour.js';

export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function short(v) {
  if (v === null || v === undefined || Number.isNaN(v)) return '–';
  if (v === 0) return '0';
  const size = Math.abs(v);
  if (size >= 1e6 || size < 1e-3) return v.toExponential(1).replace('e+', 'e');
  return String(Number(v.toPrecision(3)));
}

// As many digits as it takes to tell neighbours on an axis of this span apart.
function along(v, span) {
  const size = Math.abs(v);
  const digits = size && span ? Math.ceil(Math.log10(size / span)) + 2 : 3;
  return digits <= 3 || digits > 9 ? short(v) : String(Number(v.toPrecision(digits)));
}

function begin(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = '11px system-ui, "DejaVu Sans", sans-serif';
  return { c, width, height };
}

// Round numbers that cover an interval.
export function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999) ?? power;
  const out = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k += 1) out.push(k * step);
  return out;
}

// lines: [{values, deviation?, colour, width, dash?, weight?}]; returns x -> band for clicks.
export function spectra(canvas, x, lines, band, label) {
  const { c, width, height } = begin(canvas);
  const weighted = lines.some((l) => l.weight);
  const area = { left: 46, right: width - (weighted ? 36 : 14), top: 8, bottom: height - 32 };
  const values = lines.filter((l) => !l.weight).flatMap((l) => l.values.flatMap((v, i) => {
    if (v === null) return [];
    return l.deviation ? [v - l.deviation[i], v + l.deviation[i]] : [v];
  }));
  let low = values.length ? Math.min(...values) : 0;
  let high = values.length ? Math.max(...values) : 1;
  if (high <= low) { low -= 0.5; high += 0.5; }
  const pad = (high - low) * 0.05;
  low -= pad;
  high += pad;
  const first = x[0];
  const last = x.length > 1 ? x[x.length - 1] : x[0] + 1;
  const across = (v) => area.left + ((v - first) / (last - first)) * (area.right - area.left);
  const up = (v) => area.bottom - ((v - low) / (high - low)) * (area.bottom - area.top);
  const [wa, wb] = [0.001, 30].map(Math.log);
  const weigh = (w) => area.bottom - ((Math.log(Math.max(w, 0.001)) - wa) / (wb - wa)) * (area.bottom - area.top);

  const soft = style('--soft');
  c.fillStyle = soft;
  c.strokeStyle = style('--line');
  c.lineWidth = 1;
  c.textBaseline = 'middle';
  c.textAlign = 'right';
  for (const v of !lines.length ? [] : ticks(low, high, Math.max(2, Math.round((area.bottom - area.top) / 42)))) {
    const y = Math.round(up(v)) + 0.5;
    c.beginPath();
    c.moveTo(area.left, y);
    c.lineTo(area.right, y);
    c.stroke();
    c.fillText(along(v, high - low), area.left - 6, y);
  }
  c.textAlign = 'center';
  for (const v of ticks(Math.min(first, last), Math.max(first, last), 5)) {
    c.fillText(String(Number(v.toPrecision(6))), across(v), area.bottom + 11);
  }
  c.fillText(label, (area.left + area.right) / 2, height - 7);
  if (weighted) {
    c.textAlign = 'left';
    c.fillStyle = style('--weight');
    for (const w of [0.001, 0.01, 0.1, 1, 10]) c.fillText(String(w), area.right + 4, weigh(w));
  }
  if (!lines.length) {
    c.textAlign = 'center';
    c.fillText('Point at a pixel; click to pin it', (area.left + area.right) / 2, (area.top + area.bottom) / 2);
    return () => band;
  }
  c.strokeStyle = style('--faint');
  c.setLineDash([3, 3]);
  c.beginPath();
  c.moveTo(across(x[band]), area.top);
  c.lineTo(across(x[band]), area.bottom);
  c.stroke();
  c.setLineDash([]);

  c.save();
  c.beginPath();
  c.rect(area.left - 2, area.top - 2, area.right - area.left + 4, area.bottom - area.top + 4);
  c.clip();
  for (const line of lines.filter((l) => l.deviation)) {
    const known = line.values.map((v, i) => i).filter((i) => line.values[i] !== null);
    const edge = (i, sign) => [across(x[i]), up(line.values[i] + sign * line.deviation[i])];
    c.fillStyle = line.colour;
    c.globalAlpha = 0.18;
    c.beginPath();
    for (const i of known) c.lineTo(...edge(i, 1));
    for (const i of known.reverse()) c.lineTo(...edge(i, -1));
    c.fill();
  }
  for (const line of lines) {
    c.strokeStyle = line.colour;
    c.lineWidth = line.width;
    c.globalAlpha = line.alpha ?? 1;
    c.setLineDash(line.dash ?? []);
    c.beginPath();
    let pen = false;
    line.values.forEach((v, i) => {
      if (v === null || (line.weight && !(v > 0))) { pen = false; return; }
      const y = line.weight ? weigh(v) : up(v);
      if (pen) c.lineTo(across(x[i]), y);
      else { c.moveTo(across(x[i]), y); if (line.values.length === 1) c.lineTo(across(x[i]) + 3, y); }
      pen = true;
    });
    c.stroke();
  }
  c.restore();
  return (px) => {
    const v = first + ((px - area.left) / (area.right - area.left)) * (last - first);
    let best = 0;
    x.forEach((xi, i) => { if (Math.abs(xi - v) < Math.abs(x[best] - v)) best = i; });
    return best;
  };
}

// Returns x -> value; 'shown' are the values drawn as black and white.
export function histogram(canvas, values, { logarithmic, low, high, colour, shown }) {
  const { c, width, height } = begin(canvas);
  const count = 60;
  const bins = new Uint32Array(count);
  const a = logarithmic ? Math.log(low) : low;
  const b = logarithmic ? Math.log(high) : high;
  for (let i = 0; i < values.length; i += 1) {
    const v = values[i];
    if (v !== v || (logarithmic && !(v > 0))) continue;
    const at = ((logarithmic ? Math.log(v) : v) - a) / (b - a);
    bins[Math.max(0, Math.min(count - 1, Math.floor(at * count)))] += 1;
  }
  const most = Math.max(1, ...bins);
  const bottom = height - 18;
  const wide = (width - 8) / count;
  bins.forEach((n, i) => {
    const h = (n / most) * (bottom - 4);
    c.fillStyle = typeof colour === 'function' ? colour((i + 0.5) / count) : colour;
    c.fillRect(4 + i * wide, bottom - h, Math.max(1, wide - 1), h);
  });
  c.strokeStyle = style('--line');
  c.beginPath();
  c.moveTo(4, bottom + 0.5);
  c.lineTo(width - 4, bottom + 0.5);
  c.stroke();
  c.fillStyle = style('--soft');
  c.textBaseline = 'middle';
  const marks = logarithmic ? [0.001, 0.01, 0.1, 1, 10, 100].filter((v) => v >= low && v <= high) : ticks(low, high, 5);
  for (const v of marks) {
    const at = 4 + (((logarithmic ? Math.log(v) : v) - a) / (b - a)) * (width - 8);
    c.textAlign = at < 16 ? 'left' : at > width - 16 ? 'right' : 'center';
    c.fillText(logarithmic ? short(v) : along(v, high - low), at, height - 7);
  }
  const wideAll = width - 8;
  if (shown) {
    const ends = shown.map((v) => 4 + Math.max(0, Math.min(1, (v - a) / (b - a))) * wideAll);
    c.fillStyle = style('--stage');
    c.globalAlpha = 0.65;
    c.fillRect(4, 0, ends[0] - 4, bottom);
    c.fillRect(ends[1], 0, width - 4 - ends[1], bottom);
    c.globalAlpha = 1;
    c.fillStyle = style('--accent');
    for (const at of ends) {
      c.fillRect(at - 0.75, 0, 1.5, bottom);
      c.fillRect(at - 3.5, 0, 7, 9);
    }
  }
  return (px) => a + (Math.max(0, Math.min(wideAll, px - 4)) / wideAll) * (b - a);
}

const strips = new Map();

export function scale(canvas, kind, [low, high]) {
  const { c, width } = begin(canvas);
  const map = MAPS[kind];
  const edge = 22;
  const inner = width - 2 * edge;
  if (!strips.has(kind)) {
    const strip = document.createElement('canvas');
    strip.width = 256;
    strip.height = 1;
    strip.getContext('2d').putImageData(new ImageData(new Uint8ClampedArray(map.buffer.slice(0)), 256, 1), 0, 0);
    strips.set(kind, strip);
  }
  c.drawImage(strips.get(kind), edge, 3, inner, 11);
  c.strokeStyle = style('--line');
  c.strokeRect(edge - 0.5, 2.5, inner + 1, 12);
  c.fillStyle = style('--soft');
  c.textBaseline = 'middle';
  c.textAlign = 'center';
  if (kind === 'heat') {
    const [a, b] = WEIGHTS.map(Math.log);
    for (const w of [0.03, 0.1, 0.3, 1, 3, 10]) c.fillText(String(w), edge + ((Math.log(w) - a) / (b - a)) * inner, 24);
    return;
  }
  const marks = kind === 'both' ? [low, 0, high] : [low, (low + high) / 2, high];
  marks.forEach((v, i) => c.fillText(along(v, high - low), edge + (i / 2) * inner, 24));
}
