// The entry of a saved session: requests are answered from the recorded answers. The file contains whole tensors, which
// are cut here like in studio/tensors.py.
import { frames } from './frames.js';
import { mount } from './place.js';

const NOTHING = 255;
const GONE = 'This is not recorded in this file. To see it, open the model: translucid explore';
const bytesOf = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
const sorted = value =>
  value && typeof value === 'object' && !Array.isArray(value)
    ? Object.fromEntries(
        Object.keys(value)
          .sort()
          .map(key => [key, value[key]]),
      )
    : value;
function keyOf(method, path, body) {
  // the order of names in a query does not matter
  const [at, query = ''] = path.split('?');
  const given = new URLSearchParams(query);
  given.sort();
  return `${method} ${at}?${given} ${body ? JSON.stringify(sorted(JSON.parse(body))) : ''}`;
}

// ---- cutting
function chosen(frame, index) {
  // along the leading axes; * is all, 10:30 is 10 to 29
  const { shape } = frame;
  const left = [];
  const axes = [];
  let starts = [0];
  shape.forEach((size, axis) => {
    const at = index[axis] ?? '*';
    const some = at === '*' || at.includes(':');
    const [from, to] = at === '*' ? [0, size] : some ? at.split(':').map(Number) : [Number(at), Number(at) + 1];
    if (to > size) throw new Error(`index: ${frame.at} has shape ${shape.join(', ')}`);
    if (some) {
      left.push(to - from);
      axes.push(frame.axes[axis]);
    }
    const all = Array.from({ length: to - from }, (_, i) => from + i);
    starts = starts.flatMap(start => all.map(i => start * size + i));
  });
  return { shape: left, axes, values: Float32Array.from(starts, at => frame.raw[at]) };
}
function pooled({ shape, axes, values }, sizes) {
  // the largest magnitude of neighbours; empty only if none is finite
  for (let axis = Math.max(0, shape.length - 2); axis < shape.length; axis++) {
    const size = shape[axis];
    const most = sizes.at(axis - shape.length) ?? sizes[0];
    const each = Math.ceil(size / most);
    if (size <= most) continue;
    const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
    const outer = shape.slice(0, axis).reduce((a, b) => a * b, 1);
    const count = Math.ceil(size / each);
    const found = new Float32Array(outer * count * inner).fill(-Infinity);
    for (let o = 0; o < outer; o++)
      for (let i = 0; i < size; i++)
        for (let k = 0; k < inner; k++) {
          const value = values[(o * size + i) * inner + k];
          const to = (o * count + Math.floor(i / each)) * inner + k;
          if (Number.isFinite(value) && (!Number.isFinite(found[to]) || Math.abs(value) > Math.abs(found[to])))
            found[to] = value;
        }
    shape = shape.with(axis, count);
    values = found;
  }
  return { shape, axes, values };
}
function packed(frame, cut, whole, form, index) {
  const most = cut.values.reduce((top, v) => (Number.isFinite(v) ? Math.max(top, Math.abs(v)) : top), 0) || 1;
  const hi = frame.scale === 'unit' ? 1 : most;
  const lo = frame.scale === 'signed' ? -hi : 0;
  const small = form === 'u8';
  const numbers = small
    ? Uint8Array.from(cut.values, v =>
        Number.isFinite(v) ? Math.min(254, Math.max(0, Math.round(((v - lo) / (hi - lo)) * 254))) : NOTHING,
      )
    : cut.values;
  let head = JSON.stringify({
    at: frame.at,
    axes: cut.axes,
    shape: cut.shape,
    whole,
    dtype: small ? 'u8' : 'f32',
    scale: frame.scale,
    lo,
    hi,
    index,
  });
  head += ' '.repeat((8 - ((head.length + 4) % 8)) % 8);
  const body = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  const out = new Uint8Array(4 + head.length + body.length + ((8 - (body.length % 8)) % 8));
  new DataView(out.buffer).setUint32(0, head.length, true);
  out.set(new TextEncoder().encode(head), 4);
  out.set(body, 4 + head.length);
  return out;
}
function tensors(points, given) {
  const index = given.get('index') ? given.get('index').split(',') : [];
  const pool = given.get('pool')?.split(',').map(Number) ?? [Infinity];
  const parts = given.getAll('at').map(name => {
    const frame = points.get(name);
    const cut = chosen(frame, index);
    return packed(
      frame,
      pooled(cut, pool),
      cut.shape,
      given.get('as') ?? 'u8',
      index.map(at => (at === '*' ? null : at.includes(':') ? at.split(':').map(Number) : Number(at))),
    );
  });
  return new Blob(parts).arrayBuffer();
}
// The file contains no weights: for terms that were not recorded, it shows the value and how to get the terms.
function bare(points, at) {
  const [, name, places] = /^([\w.]+)(?:\[([\d, ]*)\])?$/.exec(at) ?? [];
  const frame = points.get(name);
  if (!frame) return null;
  const index = places ? places.split(',').map(Number).slice(1) : [];
  const value = frame.raw[index.reduce((sum, i, axis) => sum * frame.shape[axis] + i, 0)];
  const finite = Number.isFinite(value);
  return {
    address: at,
    kind: 'point',
    value: finite ? value : null,
    text: finite ? String(Number(value.toPrecision(6))) : value < 0 ? '-inf' : 'inf',
    symbol: '',
    meaning: '',
    formula: '',
    symbols: {},
    remainder: 0,
    python: `trace["${name}"]${places ? `[${places}]` : ''}`,
    expression: null,
    missing:
      'The terms of this number are not recorded in this file: ' +
      `to see them, use translucid explore or, in Python, trace.terms("${at}").`,
  };
}
// The tables of these training steps, selected from those that were recorded together.
const tables = all => new Map(frames(all.buffer).map(({ step, from, end }) => [step, all.slice(from, end)]));

// The requested steps with fewer tokens each; nothing if some were not recorded.
function steps(all, wanted) {
  const k = Number(wanted.get('k') ?? 10);
  const [from, to] = wanted.get('positions')?.split(':').map(Number) ?? [0, all.steps.length];
  const some = all.steps.filter(each => each.n >= from && each.n < to);
  if (some.length < to - from || some.some(each => each.ids.length < k && each.others)) return null;
  return { ...all, steps: some.map(each => fewer(each, k)) };
}
function fewer(step, k) {
  const [words, ids, probabilities, logits] = [step.words, step.ids, step.probabilities, step.logits].map(list =>
    list.slice(0, k),
  );
  const rest = Math.max(0, 1 - probabilities.reduce((sum, p) => sum + p, 0));
  return { ...step, words, ids, probabilities, logits, rest, others: step.others + step.ids.length - ids.length };
}

// ---- answering
export function recorded({ answers, points }) {
  const known = new Map(answers.map(([method, path, body, ...answer]) => [keyOf(method, path, body), answer]));
  const opened = new Map();
  function pointsOf(run) {
    if (!opened.has(run))
      opened.set(run, new Map(frames(bytesOf(points[run] ?? '').buffer).map(frame => [frame.at, frame])));
    return opened.get(run);
  }
  // The recorded steps of a run along the same tokens.
  const stepsOf = (run, tokens) =>
    answers.flatMap(([, path, , , , text]) => {
      const [at, query] = path.split('?');
      const all = at === `/api/runs/${run}/steps` ? new URLSearchParams(query) : null;
      return all && all.get('tokens') === tokens && !all.has('positions') ? [JSON.parse(text)] : [];
    });
  const json = (value, status = 200) => ({ status, kind: 'application/json', bytes: JSON.stringify(value) });
  return async (method, path, body) => {
    const found = known.get(keyOf(method, path, body));
    if (found)
      return {
        status: found[0],
        kind: found[1],
        bytes: found[1] === 'application/json' ? found[2] : bytesOf(found[2]),
      };
    const training = path.match(/^(\/api\/train\/\w+\/probes)\?(.*)$/);
    if (training) {
      const there = answers.filter(([, at]) => at.startsWith(`${training[1]}?`));
      const known_ = new Map(there.flatMap(([, , , , , text]) => [...tables(bytesOf(text))]));
      const wanted = new URLSearchParams(training[2]).getAll('step').map(step => known_.get(Number(step)));
      if (wanted.every(Boolean))
        return { status: 200, kind: 'application/octet-stream', bytes: await new Blob(wanted).arrayBuffer() };
    }
    const asked = path.match(/^\/api\/runs\/(\w+)\/(tensors|terms|steps)\?(.*)$/);
    const given = new URLSearchParams(asked?.[3]);
    if (asked?.[2] === 'steps') {
      const cut = stepsOf(asked[1], given.get('tokens')).map(all => steps(all, given));
      return json(cut.find(Boolean) ?? { error: GONE }, cut.some(Boolean) ? 200 : 404);
    }
    if (asked?.[2] === 'terms') {
      const plain = bare(pointsOf(asked[1]), given.get('address'));
      return json(plain ?? { error: GONE }, plain ? 200 : 404);
    }
    if (asked && given.getAll('at').every(name => pointsOf(asked[1]).has(name))) {
      return { status: 200, kind: 'application/octet-stream', bytes: await tensors(pointsOf(asked[1]), given) };
    }
    return json({ error: GONE }, 404);
  };
}
export function open(el, data) {
  const place = mount(el, {
    ask: recorded(data),
    address: location.hash || data.address,
    height: '100vh',
    whole: true,
    onaddress: to => {
      if (location.hash !== to) history.replaceState(null, '', to);
    },
  });
  addEventListener('hashchange', () => {
    place.location.hash = location.hash;
  });
  return place;
}
