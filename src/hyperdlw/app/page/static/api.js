// Talking to the server. Addresses are relative, so the token stays in one place: the page's own.

export class Refused extends Error {}

async function checked(answer) {
  if (answer.ok) return answer;
  let text = `the server said ${answer.status}`;
  try { text = (await answer.json()).error ?? text; } catch { /* no sentence came with it */ }
  throw new Refused(text);
}

export async function get(path) {
  return (await checked(await fetch(`api/${path}`))).json();
}

export async function post(path, body) {
  const json = body === undefined ? undefined : JSON.stringify(body);
  return (await checked(await fetch(`api/${path}`, { method: 'POST', body: json }))).json();
}

// Planes of numbers, least recently used ones dropped.
const planes = new Map();
let held = 0;
const MOST = 96 * 2 ** 20;

export async function plane(layer, band, version) {
  const key = `${layer}/${band}/${layer === 'noisy' ? 0 : version}`;
  if (planes.has(key)) {
    const found = planes.get(key);
    planes.delete(key);
    planes.set(key, found);
    return found;
  }
  const coming = fetch(`api/band/${layer}/${band}`).then(checked).then((a) => a.arrayBuffer())
    .then((b) => new Float32Array(b));
  planes.set(key, coming);
  try {
    const values = await coming;
    held += values.byteLength;
    for (const old of planes.keys()) {
      if (held <= MOST || old === key) break;
      const gone = planes.get(old);
      planes.delete(old);
      gone.then((v) => { held -= v.byteLength; }, () => {});
    }
    return values;
  } catch (error) {
    planes.delete(key);
    throw error;
  }
}

// The newest question wins: answers to older ones are dropped, and only one is on its way.
export function latest(ask, take) {
  let waiting = null;
  let busy = false;
  return async function again(...question) {
    waiting = question;
    if (busy) return;
    busy = true;
    while (waiting) {
      const now = waiting;
      waiting = null;
      try {
        const answer = await ask(...now);
        if (!waiting) take(answer, ...now);
      } catch (error) {
        if (!waiting) take(null, ...now, error);
      }
    }
    busy = false;
  };
}
