// The page: what is shown, and what happens when something is touched.

import { get, latest, plane, post } from './api.js';
import { MAPS, limits, paint, paintColour, paintWeights, quantile, sorted } from './colour.js';
import { Image, PINS } from './image.js';
import { Jobs } from './jobs.js';
import { histogram, scale, short, spectra, style } from './plots.js';

const $ = (id) => document.getElementById(id);
const facts = await get('cube');
const [bands, rows, cols] = facts.shape;
const nm = facts.wavelengths;

const view = {
  layer: 'noisy', mode: 'band', band: facts.noisiest, colours: [...facts.colours],
  low: 2, high: 98, fixed: new Map(), version: facts.version, restored: facts.result !== null,
  spectrum: null, pins: [], regions: [], shown: 0,
};
window.dlwView = view; // for the console and the tests; the page itself does not read it

const image = new Image($('image'), rows, cols);
const bandName = (b) => (nm ? `${b} · ${Number(nm[b].toFixed(1))} nm` : `${b} of ${bands - 1}`);

// --- what is shown

let plotted = () => 0;
let histogramOf = null;

async function collect() {
  const { layer, band, version, mode } = view;
  const coloured = mode === 'colour' && ['noisy', 'restored', 'swipe', 'beside'].includes(layer);
  const wanted = coloured ? view.colours : [band];
  const before = layer === 'restored' || layer === 'weights' ? [] : wanted;
  const after = layer === 'noisy' && !view.restored ? [] : wanted;
  const [noisy, restored, counted] = await Promise.all([
    Promise.all(before.map((b) => plane('noisy', b, version))),
    Promise.all((view.restored && layer !== 'weights' ? after : []).map((b) => plane('restored', b, version))),
    layer === 'weights' ? plane('weights', band, version) : null,
  ]);
  return { layer, coloured, band, noisy, restored, counted };
}

let begun = false;

function show(found, ...rest) {
  if (!begun) {
    begun = true; // after the first picture
    setTimeout(() => jobs.begin(facts));
  }
  if (!found) { tell(rest.at(-1).message); return; }
  const { layer, coloured, noisy, restored, counted, band } = found;
  // Both images get the stretch of the restored one: that of the noisy one shows its noise.
  const guide = restored.length ? restored : noisy;
  const pairs = layer === 'weights' ? [] : guide.map((p) => limits(p, view.low, view.high));
  if (!coloured && pairs.length && view.fixed.has(band)) pairs[0] = view.fixed.get(band);
  const draw = (planes) => (out) => (coloured ? paintColour(planes, pairs, out) : paint(planes[0], pairs[0], MAPS.grey, out));
  const bar = { kind: 'grey', name: nm ? `Band at ${Number(nm[band].toFixed(1))} nm` : `Band ${band}`, limits: pairs[0] };
  if (layer === 'weights') {
    image.fill(0, (out) => paintWeights(counted, out));
    Object.assign(bar, { kind: 'heat', name: 'Weight', limits: [0, 0] });
  } else if (layer === 'difference') {
    const gap = noisy[0].map((v, i) => v - restored[0][i]);
    const most = quantile(sorted(gap.map(Math.abs)), 0.99) || 1;
    image.fill(0, (out) => paint(gap, [-most, most], MAPS.both, out));
    Object.assign(bar, { kind: 'both', name: 'Noisy − restored', limits: [-most, most] });
  } else {
    image.fill(0, draw(layer === 'restored' ? restored : noisy));
    if (layer === 'swipe' || layer === 'beside') image.fill(1, draw(restored));
  }
  image.setForm(layer === 'swipe' || layer === 'beside' ? layer : 'one');
  image.draw();
  $('divider').hidden = layer !== 'swipe';
  $('middle').hidden = layer !== 'beside';
  for (const id of ['tag-left', 'tag-right']) $(id).hidden = image.form === 'one';
  placeDivider();
  $('scale-name').textContent = coloured ? 'Each colour has its own stretch' : bar.name;
  $('scale').hidden = coloured;
  if (!coloured) scale($('scale'), bar.kind, bar.limits);
  lastBar = coloured ? null : bar;
  const weighted = layer === 'weights';
  histogramOf = { values: weighted ? counted : guide[0], weights: weighted, shown: coloured ? null : pairs[0] };
  drawHistogram();
  view.shown += 1;
}

let lastBar = null;
const refresh = latest(collect, show);

let valueAt = () => 0;

function drawHistogram() {
  if (!histogramOf) return;
  const { values, weights, shown } = histogramOf;
  const sample = sorted(values, weights ? 0 : undefined);
  $('histogram-name').textContent = weights ? 'Weights' : 'Values';
  $('histogram').classList.toggle('dragged', Boolean(shown && !weights));
  document.querySelector('.stretch').hidden = weights;
  $('restretch').hidden = weights || !view.fixed.has(view.band);
  if (weights) {
    const small = sample.findIndex((v) => v >= 0.1);
    const part = small < 0 ? 1 : small / sample.length;
    $('histogram-facts').textContent = `median ${short(quantile(sample, 0.5))}, ${(100 * part).toFixed(1)} % below 0.1`;
    const heat = new Uint8Array(MAPS.heat.buffer);
    const inside = (u) => {
      const w = Math.exp(Math.log(1e-3) + u * Math.log(1e5));
      const k = Math.max(0, Math.min(255, Math.round((Math.log(w / 0.03) / Math.log(10 / 0.03)) * 255))) * 4;
      return `rgb(${heat[k]},${heat[k + 1]},${heat[k + 2]})`;
    };
    histogram($('histogram'), sample, { logarithmic: true, low: 1e-3, high: 100, colour: inside });
  } else {
    // A few wild values would squeeze all others into one bar.
    const ends = [quantile(sample, 0.001), quantile(sample, 0.999)];
    const low = Math.min(ends[0], shown?.[0] ?? ends[0]);
    const high = Math.max(ends[1], shown?.[1] ?? ends[1]);
    $('histogram-facts').textContent = `${short(quantile(sample, 0))} to ${short(quantile(sample, 1))}`;
    valueAt = histogram($('histogram'), sample, { low, high: high > low ? high : low + 1, colour: style('--noisy'), shown });
  }
}

// The nearer end of the stretch follows the pointer.
function stretchTo(value, which) {
  const pair = [...histogramOf.shown];
  pair[which] = value;
  if (pair[1] > pair[0]) view.fixed.set(view.band, pair);
  refresh();
}

{
  const canvas = $('histogram');
  let held = null;
  let span = null;
  canvas.addEventListener('pointerdown', (e) => {
    if (!histogramOf?.shown || histogramOf.weights) return;
    canvas.setPointerCapture(e.pointerId);
    span = valueAt; // the axis stays as it is while an end is dragged
    const v = span(e.offsetX);
    const [a, b] = histogramOf.shown;
    held = Math.abs(v - a) < Math.abs(v - b) ? 0 : 1;
    stretchTo(v, held);
  });
  canvas.addEventListener('pointermove', (e) => { if (held !== null) stretchTo(span(e.offsetX), held); });
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => { held = null; });
  $('restretch').addEventListener('click', () => { view.fixed.delete(view.band); refresh(); });
}

// --- spectra

const askSpectrum = latest((row, col) => get(`spectrum?row=${row}&col=${col}`), (found, row, col) => {
  if (!found || !image.over) return;
  view.spectrum = { row, col, ...found };
  drawSpectrum();
});

function hovered(place) {
  if (place) { askSpectrum(place.row, place.col); return; }
  view.spectrum = null;
  drawSpectrum();
}

function linesOf(s, colour) {
  const out = [{ values: s.noisy, colour: colour ?? style('--noisy'), width: 1, alpha: colour ? 0.45 : 1 }];
  if (s.restored) out.push({ values: s.restored, colour: colour ?? style('--restored'), width: 1.8 });
  return out;
}

const inRegion = (r) => [
  { values: r.noisy, deviation: r.restored ? undefined : r.noisy_deviation, colour: r.colour, width: 1, alpha: r.restored ? 0.45 : 1 },
  ...(r.restored ? [{ values: r.restored, deviation: r.restored_deviation, colour: r.colour, width: 1.8 }] : []),
];

function drawSpectrum() {
  const s = view.spectrum;
  const lines = [...view.regions.flatMap(inRegion), ...view.pins.flatMap((p) => linesOf(p, p.colour))];
  if (s) {
    lines.push(...linesOf(s));
    if (s.weights) lines.push({ values: s.weights, colour: style('--weight'), width: 1, dash: [2, 2], weight: true });
  }
  const x = nm ?? Array.from({ length: bands }, (_, i) => i);
  plotted = spectra($('spectrum'), x, lines, view.band, nm ? 'wavelength (nm)' : 'band');
  $('where').textContent = s ? `row ${s.row}, column ${s.col}` : '';
  const legend = [];
  if (s) legend.push(['noisy', style('--noisy')]);
  if (s?.restored) legend.push(['restored', style('--restored')], ['weight (right)', style('--weight')]);
  for (const p of view.pins) legend.push([`${p.row}, ${p.col}`, p.colour]);
  for (const r of view.regions) legend.push([`mean ± deviation of ${r.pixels} pixels`, r.colour]);
  $('legend').replaceChildren(...legend.map(([text, colour]) => {
    const item = document.createElement('li');
    const line = document.createElement('i');
    line.style.borderColor = colour;
    item.append(line, text);
    return item;
  }));
  readout();
}

// The middle of a pixel on the map, in the units of its coordinate system.
function mapPlace({ row, col }) {
  if (!facts.transform) return '';
  const [a, b, c, d, e, f] = facts.transform;
  const digits = Math.max(0, Math.min(8, 1 - Math.floor(Math.log10(Math.max(Math.hypot(a, d), 1e-9)))));
  const at = (p, q, r) => (p * (col + 0.5) + q * (row + 0.5) + r).toFixed(digits);
  return `  ·  ${at(a, b, c)}, ${at(d, e, f)}${facts.system ? ` (${facts.system})` : ''}`;
}

function readout() {
  const s = view.spectrum;
  if (!s) { $('readout').textContent = 'Move the pointer over the image'; return; }
  const parts = [document.createTextNode(`Row ${s.row}, column ${s.col}${mapPlace(s)}${nm ? `  ·  ${Number(nm[view.band].toFixed(1))} nm` : ''}`)];
  for (const name of ['noisy', 'restored', 'weights']) {
    if (!s[name]) continue;
    const v = s[name][view.band];
    const value = document.createElement('b');
    value.dataset.value = name;
    value.textContent = v === null ? 'not measured' : String(Number(v.toPrecision(6)));
    parts.push(document.createTextNode(`  ·  ${name === 'weights' ? 'weight' : name} `), value);
  }
  $('readout').replaceChildren(...parts);
}

async function togglePin({ row, col }) {
  const found = view.pins.findIndex((p) => Math.hypot(p.row - row, p.col - col) * image.zoom < 8);
  if (found >= 0) {
    view.pins.splice(found, 1);
  } else if (!colourFor([...view.pins, ...view.regions])) {
    tell(`${PINS.length} pixels and regions are marked already`);
    return;
  } else {
    const colour = colourFor([...view.pins, ...view.regions]);
    const spectrum = await get(`spectrum?row=${row}&col=${col}`);
    view.pins.push({ row, col, colour, ...spectrum });
  }
  pinsChanged();
}

const colourFor = (taken) => PINS.find((c) => !taken.some((p) => p.colour === c));
const rectangle = (r) => `top=${r.top}&left=${r.left}&bottom=${r.bottom}&right=${r.right}`;

async function addRegion(place) {
  const colour = colourFor([...view.pins, ...view.regions]);
  if (!colour) { tell(`${PINS.length} pixels and regions are marked already`); return; }
  try {
    view.regions.push({ ...place, colour, ...await get(`region?${rectangle(place)}`) });
    pinsChanged();
  } catch (error) { tell(error.message); }
}

function chooseRegion(on = !image.choosing) {
  image.choosing = on;
  $('region').setAttribute('aria-pressed', String(on));
  if (on) tell('Drag over the image: mean and deviation of the pixels are drawn');
}

function unpin() {
  view.pins = [];
  view.regions = [];
  pinsChanged();
}

function pinsChanged() {
  image.pins = view.pins;
  image.regions = view.regions;
  image.draw();
  $('unpin').hidden = !view.pins.length && !view.regions.length;
  drawSpectrum();
  links();
}

async function renewSpectra() {
  const fresh = await Promise.all(view.pins.map((p) => get(`spectrum?row=${p.row}&col=${p.col}`)));
  view.pins = view.pins.map(({ row, col, colour }, i) => ({ row, col, colour, ...fresh[i] }));
  const again = await Promise.all(view.regions.map((r) => get(`region?${rectangle(r)}`)));
  view.regions = view.regions.map(({ top, left, bottom, right, colour }, i) => ({ top, left, bottom, right, colour, ...again[i] }));
  pinsChanged();
  if (image.over) askSpectrum(image.over.row, image.over.col);
}

async function copyTable() {
  const all = [...view.pins, ...view.regions, ...(view.spectrum ? [view.spectrum] : [])];
  if (!all.length) { tell('Pin a pixel first: click the image'); return; }
  const wanted = ['noisy', 'restored', 'weights'].flatMap((k) => [k, `${k}_deviation`]);
  const names = all.flatMap((s) => wanted.filter((k) => s[k]).map((k) => [s, k]));
  const where = (s) => (s.pixels ? `rows ${s.top}-${s.bottom - 1} columns ${s.left}-${s.right - 1}` : `${s.row},${s.col}`);
  const head = ['band', ...(nm ? ['nm'] : []), ...names.map(([s, k]) => `${k} ${where(s)}`)];
  const body = Array.from({ length: bands }, (_, b) => [b, ...(nm ? [nm[b]] : []), ...names.map(([s, k]) => s[k][b] ?? '')]);
  try {
    await navigator.clipboard.writeText([head, ...body].map((r) => r.join('\t')).join('\n'));
    tell('Copied');
  } catch { tell('The browser refused the clipboard'); }
}

// --- noise of every band

let noisePlotted = () => 0;

function drawNoise() {
  const x = nm ?? Array.from({ length: bands }, (_, i) => i);
  const lines = [{ values: facts.noise, colour: style('--noisy'), width: 1.5 }];
  noisePlotted = spectra($('noise'), x, lines, view.band, nm ? 'wavelength (nm)' : 'band');
}

// --- choosing

function setBand(b) {
  view.band = Math.max(0, Math.min(bands - 1, Math.round(b)));
  $('band').value = view.band;
  $('band-name').textContent = bandName(view.band) + (facts.good[view.band] ? '' : ' · bad');
  $('band').setAttribute('aria-valuetext', $('band-name').textContent);
  refresh();
  drawSpectrum();
  drawNoise();
}

function check(group, key, value) {
  for (const b of $(group).querySelectorAll('button')) {
    b.setAttribute('aria-checked', String(b.dataset[key] === value));
    b.tabIndex = b.dataset[key] === value ? 0 : -1;
  }
}

function setLayer(layer) {
  if (layer !== 'noisy' && !view.restored) { tell('Run a restoration first'); return; }
  view.layer = layer;
  check('layers', 'layer', layer);
  refresh();
}

function setMode(mode) {
  view.mode = mode;
  check('modes', 'mode', mode);
  $('colours').hidden = mode !== 'colour';
  refresh();
  links();
}

function radios(group, choose) {
  const buttons = [...$(group).querySelectorAll('button')];
  buttons.forEach((b, i) => {
    b.addEventListener('click', () => choose(b));
    b.addEventListener('keydown', (e) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (!by) return;
      e.preventDefault();
      e.stopPropagation();
      for (let k = i + by; k >= 0 && k < buttons.length; k += by) {
        if (!buttons[k].disabled) { buttons[k].focus(); choose(buttons[k]); return; }
      }
    });
  });
}

function placeDivider() {
  const d = $('divider');
  d.style.left = `${100 * image.divider}%`;
  d.setAttribute('aria-valuenow', String(Math.round(100 * image.divider)));
}

function moveDivider(to) {
  image.divider = Math.max(0.02, Math.min(0.98, to));
  placeDivider();
  image.draw();
}

let silence = 0;
function tell(text) {
  $('notice').textContent = text;
  $('notice').hidden = false;
  clearTimeout(silence);
  silence = setTimeout(() => { $('notice').hidden = true; }, 4000);
}

// --- export

const query = () => {
  const parts = [];
  if (view.mode === 'colour') parts.push(`bands=${view.colours.join(',')}`);
  if (view.pins.length) parts.push(`pins=${view.pins.map((p) => `${p.row},${p.col}`).join(';')}`);
  return parts.length ? `?${parts.join('&')}` : '';
};

function links() {
  for (const a of document.querySelectorAll('[data-get]')) a.href = `api/export/${a.dataset.get}${query()}`;
}

function toggleExports(open = $('exports').hidden) {
  $('exports').hidden = !open;
  $('export').setAttribute('aria-expanded', String(open));
  if (open) $('exports').querySelector('a').focus();
}

// --- theme

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  drawSpectrum();
  drawNoise();
  drawHistogram();
  if (lastBar) scale($('scale'), lastBar.kind, lastBar.limits);
}
const dark = matchMedia('(prefers-color-scheme: dark)');
document.documentElement.dataset.theme = dark.matches ? 'dark' : 'light';
dark.addEventListener('change', () => setTheme(dark.matches ? 'dark' : 'light'));
const otherTheme = () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');

// --- jobs

const jobs = new Jobs(facts, {
  tell,
  marked: () => [...view.regions, ...view.pins.map(({ row, col }) => ({ top: row, bottom: row + 1, left: col, right: col + 1 }))],
  changed(status) {
    const first = !view.restored && status.result !== null;
    view.version = status.version;
    view.restored = status.result !== null;
    for (const b of $('layers').querySelectorAll('button')) b.disabled = b.dataset.layer !== 'noisy' && !view.restored;
    $('export').disabled = !view.restored;
    $('get-uncertainty').hidden = !status.result?.uncertainty;
    if (first) setLayer('swipe');
    else refresh();
    renewSpectra();
  },
});

// --- wiring

$('name').textContent = facts.name;
document.title = `${facts.name} – hyperdlw`;
$('about').textContent = [
  `${bands} ${bands === 1 ? 'band' : 'bands'} · ${rows} × ${cols} pixels`,
  nm ? `${Number(nm[0].toFixed(1))} to ${Number(nm[bands - 1].toFixed(1))} nm` : null,
  facts.stored, ...facts.notes,
].filter(Boolean).join('  ·  ');
$('band').max = bands - 1;
$('band').disabled = bands === 1;
['red', 'green', 'blue'].forEach((id, i) => {
  const field = $(id);
  field.max = bands - 1;
  field.value = view.colours[i];
  field.addEventListener('change', () => {
    const b = Math.max(0, Math.min(bands - 1, Math.round(Number(field.value) || 0)));
    field.value = b;
    field.title = bandName(b);
    view.colours[i] = b;
    refresh();
    links();
  });
});
for (const id of ['low', 'high']) {
  $(id).addEventListener('change', () => {
    const field = $(id);
    view[id] = Math.max(Number(field.min), Math.min(Number(field.max), Number(field.value)));
    field.value = view[id];
    refresh();
  });
}
$('target').textContent = facts.target ?? '';
$('saves').hidden = !facts.target;
for (const b of document.querySelectorAll('[data-save]')) {
  b.addEventListener('click', async () => {
    toggleExports(false);
    tell('Writing …');
    try {
      const done = await post(`save/${b.dataset.save}${query()}`);
      tell(`Wrote ${done.written}${done.clipped ? ` (${done.clipped} voxels clipped to its type)` : ''}`);
    } catch (error) { tell(error.message); }
  });
}
$('band').addEventListener('input', () => setBand(Number($('band').value)));
radios('layers', (b) => setLayer(b.dataset.layer));
radios('modes', (b) => setMode(b.dataset.mode));
$('zoom-in').addEventListener('click', () => image.zoomAt(1.5));
$('zoom-out').addEventListener('click', () => image.zoomAt(1 / 1.5));
$('fit').addEventListener('click', () => image.fit());
$('theme').addEventListener('click', otherTheme);
$('help').addEventListener('click', () => $('keys').showModal());
$('copy').addEventListener('click', copyTable);
$('unpin').addEventListener('click', unpin);
$('region').addEventListener('click', () => chooseRegion());
$('file').replaceChildren(...facts.files.map((name, i) => new Option(name, i, false, i === facts.file)));
$('file').hidden = facts.files.length < 2;
$('name').hidden = facts.files.length > 1;
$('file').addEventListener('change', async () => {
  tell('Opening …');
  try {
    await post(`open/${$('file').value}`);
    location.reload();
  } catch (error) {
    $('file').value = facts.file;
    tell(error.message);
  }
});
for (const b of document.querySelectorAll('[data-copy]')) {
  b.addEventListener('click', async () => {
    try {
      const text = await (await fetch(`api/export/${b.dataset.copy}`)).text();
      await navigator.clipboard.writeText(text);
      tell('Copied');
    } catch { tell('The browser refused the clipboard; Export has the same as a file'); }
  });
}
$('export').addEventListener('click', () => toggleExports());
document.addEventListener('click', (e) => { if (!e.target.closest('.menu')) toggleExports(false); });
$('exports').addEventListener('click', (e) => { if (e.target.closest('a')) setTimeout(() => toggleExports(false)); });
$('spectrum').addEventListener('click', (e) => setBand(plotted(e.offsetX)));
$('noise').addEventListener('click', (e) => setBand(noisePlotted(e.offsetX)));
image.onhover = hovered;
image.onclick = togglePin;
image.onregion = (place) => { chooseRegion(false); addRegion(place); };
new ResizeObserver(() => { drawSpectrum(); drawNoise(); drawHistogram(); }).observe($('spectrum'));

const divider = $('divider');
divider.addEventListener('pointerdown', (e) => { divider.setPointerCapture(e.pointerId); e.preventDefault(); divider.focus(); });
divider.addEventListener('pointermove', (e) => {
  if (!divider.hasPointerCapture(e.pointerId)) return;
  const box = $('picture').getBoundingClientRect();
  moveDivider((e.clientX - box.left) / box.width);
});
divider.addEventListener('keydown', (e) => {
  const by = { ArrowLeft: -0.02, ArrowRight: 0.02 }[e.key];
  if (!by) return;
  e.preventDefault();
  e.stopPropagation();
  moveDivider(image.divider + by);
});

const keys = {
  ArrowLeft: (e) => setBand(view.band - (e.shiftKey ? 10 : 1)),
  ArrowRight: (e) => setBand(view.band + (e.shiftKey ? 10 : 1)),
  Home: () => setBand(0),
  End: () => setBand(bands - 1),
  1: () => setLayer('noisy'),
  2: () => setLayer('restored'),
  ' ': () => setLayer(view.layer === 'noisy' ? 'restored' : 'noisy'),
  s: () => setLayer('swipe'),
  b: () => setLayer('beside'),
  d: () => setLayer('difference'),
  w: () => setLayer('weights'),
  n: () => setBand(facts.noisiest),
  c: () => setMode(view.mode === 'band' ? 'colour' : 'band'),
  '[': () => moveDivider(image.divider - 0.05),
  ']': () => moveDivider(image.divider + 0.05),
  '+': () => image.zoomAt(1.5),
  '=': () => image.zoomAt(1.5),
  '-': () => image.zoomAt(1 / 1.5),
  0: () => image.fit(),
  r: () => jobs.run(),
  q: () => jobs.run(true),
  u: () => jobs.undo(),
  g: () => chooseRegion(),
  Escape: () => {
    if (!$('exports').hidden) toggleExports(false);
    else if (image.choosing) chooseRegion(false);
    else jobs.cancel();
  },
  p: () => image.over && togglePin(image.over),
  x: unpin,
  t: otherTheme,
  '?': () => $('keys').showModal(),
};
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || $('keys').open) return;
  const field = e.target.closest('input, select, textarea');
  const typing = field && !(field.id === 'band' && /^[a-z?0-9[\]+=-]$/i.test(e.key));
  if (typing && e.key !== 'Escape') return;
  if (e.key === ' ' && e.target.closest('button, a')) return;
  const act = keys[e.key] ?? keys[e.key.toLowerCase()];
  if (!act) return;
  e.preventDefault();
  act(e);
});

check('layers', 'layer', 'noisy');
check('modes', 'mode', view.mode);
$('colours').hidden = view.mode !== 'colour';
links();
setBand(view.band);
