// The controls of a restoration: choose, run, follow, cancel, go back.

import { get, post } from './api.js';
import { short } from './plots.js';

const $ = (id) => document.getElementById(id);
const SWITCHES = ['columns', 'fill', 'paper', 'uncertainty'];
const QUALITIES = { fast: 'Fast: a quick look', normal: 'Normal', best: 'Best: takes longer' };
const WORDS = { waiting: 'Starting', weights: 'Weights', preview: 'Preview', solving: 'Solving' };

export class Jobs {
  constructor(facts, { tell, changed, marked }) {
    this.tell = tell;
    this.marked = marked;
    this.changed = changed;
    this.version = -1;
    this.job = null;
    this.result = null;
    this.log = [];
    this.waiting = [];
    $('run').addEventListener('click', () => (this.running ? this.cancel() : this.run()));
    $('queue').addEventListener('click', () => this.run(true));
    $('strength').addEventListener('input', () => { $('strength-number').value = this.slider(); });
    $('strength').addEventListener('change', () => this.moved());
    $('strength-number').addEventListener('change', () => {
      const v = Number($('strength-number').value);
      if (v > 0) $('strength').value = Math.log10(v);
      this.moved();
    });
    $('auto').addEventListener('change', () => this.lock());
    $('preset').addEventListener('change', () => this.take_settings(this.presets[$('preset').value]?.settings ?? {}));
    $('range').addEventListener('change', () => { $('range-ends').hidden = $('range').value !== 'own'; });
    $('advise').addEventListener('click', () => this.advise());
    $('undo').addEventListener('click', () => this.undo());
    for (const id of ['model', 'weights']) {
      $(id).addEventListener('change', () => { $(id).title = $(id).selectedOptions[0].title; this.rank(); });
    }
    $('paper').addEventListener('change', () => this.rank());
  }

  slider() { return Number((10 ** Number($('strength').value)).toPrecision(2)); }

  lock() {
    $('strength').disabled = $('auto').checked;
    $('strength-number').disabled = $('auto').checked;
  }

  // Some models have a rank to choose; quality is that of the default one.
  rank() {
    $('rank').disabled = !this.ranked?.includes($('model').value);
    $('quality').disabled = $('model').value !== this.plain || $('paper').checked;
  }

  quality() { return $('quality').disabled ? 'normal' : $('quality').value; }

  get running() { return Boolean(this.job?.running); }

  begin(status) {
    this.take(status);
    this.choices();
    this.listen();
  }

  async choices() {
    try {
      const found = await get('choices');
      this.fill('model', found.models, found.model);
      this.fill('weights', found.weights, found.weight);
      this.ranked = found.ranked;
      this.plain = found.model;
      this.presets = found.presets;
      $('preset').replaceChildren(...found.presets.map((p, i) => new Option(p.words, i)), new Option('My own settings', 'own'));
      $('quality').replaceChildren(...found.qualities.map((q) => new Option(QUALITIES[q] ?? q, q, q === 'normal', q === 'normal')));
      this.protectable(found.protectable);
      for (const e of document.querySelectorAll('#expert select, #expert input')) {
        e.addEventListener('change', () => { $('preset').value = 'own'; });
      }
      this.rank();
      this.ready = true;
      this.draw();
    } catch (error) {
      this.say(error.message, true);
    }
  }

  // Files that were named when the program started, each with a box to tick.
  protectable(names) {
    $('protect').append(...names.map((name) => {
      const label = document.createElement('label');
      const box = document.createElement('input');
      Object.assign(box, { type: 'checkbox', checked: true, value: name });
      label.append(box, name.split('/').at(-1));
      return label;
    }));
  }

  // What must come back as it was: regions as rows and columns, files by their name.
  protect() {
    const files = [...document.querySelectorAll('#protect input[value]:checked')].map((box) => box.value);
    const regions = $('marked').checked ? this.marked() : [];
    return [...regions.map((r) => `${r.top}:${r.bottom},${r.left}:${r.right}`), ...files];
  }

  fill(id, entries, chosen) {
    $(id).replaceChildren(...Object.entries(entries).map(([name, about]) => {
      const option = new Option(`${name} – ${about.length > 56 ? `${about.slice(0, 54)}…` : about}`, name, false, name === chosen);
      option.title = about;
      return option;
    }));
    $(id).disabled = false;
    $(id).title = $(id).selectedOptions[0].title;
  }

  // Put settings into the controls; those that are not named go back to what they are by themselves.
  take_settings(settings) {
    const all = { strength: 1, rank: null, range: 'auto', columns: true, fill: false, paper: false, uncertainty: $('uncertainty').checked, ...settings };
    if (all.model) $('model').value = all.model;
    if (all.weights) $('weights').value = all.weights;
    $('auto').checked = all.strength === 'auto';
    if (all.strength !== 'auto') {
      $('strength-number').value = short(all.strength);
      $('strength').value = Math.log10(all.strength);
    }
    this.lock();
    $('rank').value = all.rank ?? '';
    $('range').value = Array.isArray(all.range) ? 'own' : all.range;
    if (Array.isArray(all.range)) [$('range-low').value, $('range-high').value] = all.range;
    $('range-ends').hidden = $('range').value !== 'own';
    for (const id of SWITCHES) $(id).checked = all[id];
    this.rank();
  }

  async advise() {
    $('advise').disabled = true;
    $('advice').hidden = false;
    $('advice').textContent = 'Looking at the noise …';
    try {
      const found = await get('advice');
      $('advice').replaceChildren(...Object.entries(found.reasons).map(([part, reason]) => {
        const line = document.createElement('p');
        const name = document.createElement('b');
        name.textContent = `${part}: `;
        line.append(name, reason);
        return line;
      }));
      this.take_settings(found.settings);
      $('preset').value = 'own';
      this.tell('The advice is filled in; Run follows it');
    } catch (error) {
      $('advice').textContent = error.message;
    }
    $('advise').disabled = false;
  }

  listen() {
    const events = new EventSource('api/events');
    let lost = false;
    events.onmessage = (e) => {
      if (lost) this.tell('Connected again');
      lost = false;
      this.take(JSON.parse(e.data));
    };
    events.onerror = () => {
      if (!lost) this.tell('The program has ended or does not answer');
      lost = true;
    };
  }

  take(status) {
    this.job = status.job;
    this.result = status.result;
    this.preview = status.preview;
    this.waiting = status.waiting;
    this.log = status.log;
    this.shown = status.shown;
    if (status.version !== this.version) {
      this.version = status.version;
      this.changed(status);
    }
    this.draw();
  }

  say(text, bad = false) {
    $('job').textContent = text;
    $('job').title = text;
    $('job').classList.toggle('bad', bad);
  }

  draw() {
    const job = this.job;
    const run = $('run');
    run.disabled = !this.ready;
    run.textContent = this.running ? 'Cancel' : 'Run';
    run.classList.toggle('primary', !this.running);
    $('queue').hidden = !this.running;
    const bar = $('progress');
    bar.hidden = !this.running;
    this.list();
    if (!this.ready) return;
    if (!job) { this.say('Nothing has been run yet'); return; }
    if (this.running) {
      if (job.steps) bar.value = job.step / job.steps;
      else bar.removeAttribute('value');
      const left = job.progress === 'solving' && job.steps && job.step > 1 ? `, step ${job.step} of ${job.steps}` : '';
      this.say(`${WORDS[job.progress]}${left} · ${job.seconds.toFixed(0)} s`);
    } else if (job.progress === 'failed') {
      this.say(job.message, true);
    } else if (job.progress === 'cancelled') {
      this.say(this.result ? 'Cancelled; the last result is shown' : 'Cancelled');
    } else if (this.result) {
      const r = this.result;
      const short_ = `${r.model}, ${r.weights}, strength ${short(r.strength)}`;
      this.say(`${short_} · ${r.steps} steps, ${r.seconds.toFixed(1)} s${r.converged ? '' : ' (not converged)'}`);
    }
  }

  // What was run, what is shown of it, and what waits.
  list() {
    const done = this.log.filter((j) => j.progress === 'done');
    const held = done.filter((j) => j.held);
    $('undo').disabled = held.length < 2;
    const rows = [...done.slice(-20), ...this.waiting];
    const key = JSON.stringify([rows.map((j) => [j.number, j.held, j.progress]), this.shown]);
    if (key === this.listed) return;
    this.listed = key;
    $('runs').hidden = !rows.length;
    $('log').replaceChildren(...rows.reverse().map((j) => {
      const item = document.createElement('li');
      const words = document.createElement('span');
      words.textContent = `${j.number}  ${j.model}, ${j.weights}, ${j.strength === 'auto' ? 'auto' : short(j.strength)}${j.quality === 'normal' ? '' : `, ${j.quality}`}`;
      const act = document.createElement('button');
      act.className = 'plain';
      if (j.progress === 'waiting') {
        act.textContent = 'Cancel';
        act.addEventListener('click', () => post(`cancel/${j.number}`).catch((error) => this.tell(error.message)));
        words.textContent += ' · waiting';
      } else {
        act.textContent = j.number === this.shown ? 'Shown' : 'Show';
        act.disabled = j.number === this.shown || !j.held;
        if (!j.held) act.title = 'This result is not held any more';
        act.addEventListener('click', () => this.show(j.number));
        words.textContent += ` · ${j.seconds.toFixed(1)} s`;
      }
      act.setAttribute('aria-label', `${act.textContent} run ${j.number}`);
      item.append(words, act);
      return item;
    }));
  }

  async show(number) {
    try { this.take(await post(`show/${number}`)); } catch (error) { this.tell(error.message); }
  }

  // Back to the run before the one that is shown; from the first one forward to the last.
  undo() {
    const held = this.log.filter((j) => j.held).map((j) => j.number);
    if (held.length < 2) { this.tell('There is no other result to go back to'); return; }
    const at = held.indexOf(this.shown);
    this.show(held[at > 0 ? at - 1 : held.length - 1]);
  }

  wish() {
    const wish = {
      model: $('model').value, weights: $('weights').value,
      strength: $('auto').checked ? 'auto' : Number($('strength-number').value),
      range: $('range').value === 'own' ? [Number($('range-low').value), Number($('range-high').value)] : $('range').value,
    };
    const rank = $('rank').value.trim();
    if (rank && !$('rank').disabled) wish.rank = rank === 'auto' ? 'auto' : Number(rank);
    for (const id of SWITCHES) wish[id] = $(id).checked;
    wish.quality = this.quality();
    wish.protect = this.protect();
    return wish;
  }

  async run(queued = false) {
    if (!this.ready) return;
    if (this.running && !queued) { this.tell('A run is under way; Esc cancels it, q adds one'); return; }
    const added = this.running;
    if ($('marked').checked && !this.marked().length) { this.tell('Nothing is marked: click a pixel, or drag with Shift'); return; }
    try {
      const job = await post('job', this.wish());
      if (added) this.tell('Added: it begins when the run before it has ended');
      else this.job = job;
      this.draw();
    } catch (error) {
      this.say(error.message, true);
    }
  }

  async cancel() {
    if (!this.running) return;
    try { this.take(await post(`cancel/${this.job.number}`)); } catch (error) { this.tell(error.message); }
  }

  // After a first result the strength is live: same model and weights are solved again.
  async moved() {
    if (!this.result || $('auto').checked) return;
    const last = this.log.find((j) => j.number === this.shown);
    const same = last?.model === $('model').value && last.weights === $('weights').value && last.quality === this.quality();
    if (!same) return;
    await this.cancel();
    this.run();
  }
}
