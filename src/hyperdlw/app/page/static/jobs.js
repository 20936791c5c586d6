// The controls of a restoration: choose, run, follow, cancel.

import { get, post } from './api.js';
import { short } from './plots.js';

const $ = (id) => document.getElementById(id);

export class Jobs {
  constructor(facts, { tell, changed }) {
    this.tell = tell;
    this.changed = changed;
    this.version = -1;
    this.job = null;
    this.result = null;
    this.wanted = false;
    $('run').addEventListener('click', () => (this.running ? this.cancel() : this.run()));
    $('strength').addEventListener('input', () => { $('strength-number').value = this.slider(); });
    $('strength').addEventListener('change', () => this.moved());
    $('strength-number').addEventListener('change', () => {
      const v = Number($('strength-number').value);
      if (v > 0) $('strength').value = Math.log10(v);
      this.moved();
    });
    $('auto').addEventListener('change', () => {
      $('strength').disabled = $('auto').checked;
      $('strength-number').disabled = $('auto').checked;
    });
    for (const id of ['model', 'weights']) $(id).addEventListener('change', () => { $(id).title = $(id).selectedOptions[0].title; });
  }

  slider() { return Number((10 ** Number($('strength').value)).toPrecision(2)); }

  get running() { return Boolean(this.job?.running); }

  begin(status) {
    this.take(status);
    this.choices();
    this.listen();
  }

  async choices() {
    $('job').textContent = 'Asking for the models …';
    try {
      const found = await get('choices');
      this.fill('model', found.models, found.model);
      this.fill('weights', found.weights, found.weight);
      this.ready = true;
      this.draw();
    } catch (error) {
      this.say(error.message, true);
    }
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
    if (status.version !== this.version) {
      this.version = status.version;
      this.changed(status);
    }
    this.draw();
    if (this.wanted && !this.running) {
      this.wanted = false;
      this.run();
    }
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
    const bar = $('progress');
    bar.hidden = !this.running;
    if (!this.ready) return;
    if (!job) { this.say('Nothing has been run yet'); return; }
    if (this.running) {
      const words = { waiting: 'Starting', weights: 'Weights', preview: 'Preview', solving: 'Solving' };
      if (job.steps) bar.value = job.step / job.steps;
      else bar.removeAttribute('value');
      const left = job.progress === 'solving' && job.steps && job.step > 1 ? `, step ${job.step} of ${job.steps}` : '';
      this.say(`${words[job.progress]}${left} · ${job.seconds.toFixed(0)} s`);
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

  wish() {
    const strength = $('auto').checked ? 'auto' : Number($('strength-number').value);
    return { model: $('model').value, weights: $('weights').value, strength };
  }

  async run() {
    if (!this.ready) return;
    if (this.running) { this.tell('A run is under way; Esc cancels it'); return; }
    try {
      this.job = await post('job', this.wish());
      this.draw();
    } catch (error) {
      this.say(error.message, true);
    }
  }

  async cancel() {
    this.wanted = false;
    if (this.running) await post('cancel').catch((error) => this.tell(error.message));
  }

  // After a first result the strength is live: same model and weights are solved again.
  async moved() {
    if (!this.result || $('auto').checked) return;
    const same = this.result.model === $('model').value && this.result.weights === $('weights').value;
    if (!same) return;
    if (!this.running) { this.run(); return; }
    await this.cancel();
    this.wanted = true;
  }
}
