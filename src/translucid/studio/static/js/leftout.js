// What a link says that cannot be: each such part of it with what is allowed. It is left out, and the page says so.
const NAMES = ['bar', 'sentence', 'views', 'tools', 'readout'];
const MOMENTS = ['scores', 'scaled', 'biased', 'masked', 'weights'];
const SIDES = ['encoder', 'decoder', 'cross'];
const FREE = [
  'text',
  'target',
  'embed',
  'i',
  'swap',
  'named',
  'saliency',
  'instead',
  'answer',
  'side',
  'pic',
  'force',
  'with',
  'member',
  'walk',
  'problem',
  'seed',
];
const whole = text => /^\d+$/.test(text);
const within = (least, most) => value =>
  /^\d+(\.\d+)?$/.test(value) && Number(value) >= least && Number(value) <= most ? '' : `${least} to ${most}`;
const list = text => text.split(',').filter(Boolean);

export function leftOut(view, { all, model, run, params, lessons }, absent) {
  const found = [];
  const say = (key, value, why) => found.push(`${key}=${value} (${why})`);
  if (absent) say('view', view, absent);
  const { config } = model;
  const sides = run ? { src: count(run, 'src'), tgt: count(run, 'tgt') } : null;
  const below = (most, what) => value =>
    whole(value) && (most === undefined || Number(value) < most)
      ? ''
      : most === undefined
        ? `${what} are counted 0, 1, 2`
        : `${what} 0 to ${most - 1} are there`;
  const among = names => value => (names.includes(value) ? '' : `choose ${names.join(', ')}`);
  const points = new Set(run?.points.map(point => point.at));
  const checks = {
    m: among(all.map(each => each.m)),
    theme: among(['light', 'dark']),
    hide: value => list(value).map(among(NAMES)).find(Boolean) ?? '',
    at: value =>
      !run || points.has(value) || run.points.some(point => point.at.startsWith(`${value}.`))
        ? ''
        : 'this run has no such point',
    cell: value => (!run || points.has(value.split('@')[0]) ? '' : 'this run has no such point'),
    map: among(['recovered']),
    part: among(['stream', 'attention', 'feed-forward', 'cell']),
    pin: value =>
      !sides || list(value).every(key => /^(src|tgt):\d+$/.test(key) && Number(key.slice(4)) < sides[key.slice(0, 3)])
        ? ''
        : `tokens src:0 to src:${sides.src - 1}${sides.tgt ? ` and tgt:0 to tgt:${sides.tgt - 1}` : ''} are there`,
    head: value => (value === 'mean' ? '' : below(config.heads ?? undefined, 'heads')(value)),
    layer: value =>
      list(value)
        .map(each =>
          below(Math.max(config.layers ?? 1, config.decoder_layers ?? 0), 'layers')(each.replace(/^\w+\./, '')),
        )
        .find(Boolean) ?? '',
    kind: among(SIDES),
    moment: among(MOMENTS),
    numbers: among(['off']),
    unit: below(view === 'recurrent' ? (config.hidden ?? config.d_model ?? undefined) : undefined, 'units'),
    beam_size: value => (whole(value) && value >= 1 && value <= 8 ? '' : '1 to 8'),
    mode: among(['sample']),
    temperature: within(0, 2),
    top_k: within(0, 50),
    top_p: within(0.05, 1),
    repetition_penalty: within(1, 3),
    seed: below(undefined, 'seeds'),
    step: below(undefined, 'steps'),
    node: below(undefined, 'nodes'),
    off: value => {
      const unknown = list(value).filter(
        key => !model.switches.some(each => each.key === key.replace(/@(1?\d?\d|200)$/, '')),
      );
      return unknown.length ? `this model has no switch ${unknown.join(', ')}` : '';
    },
    sort: among(['effect']),
    // Of a stop that is not there, or not for this model, the lesson's strip tells.
    lesson: value =>
      /^[\w-]+\.\d+$/.test(value) || lessons.some(each => each.id === value)
        ? ''
        : `stops are ${lessons.map(each => `${each.id}.1 to ${each.id}.${each.steps}`).join(', ')}`,
  };
  for (const [key, value] of params) {
    if (value === '' || FREE.includes(key)) continue;
    const why = Object.hasOwn(checks, key) ? checks[key](value) : 'a link has no such part';
    if (why) say(key, value.length > 40 ? `${value.slice(0, 40)}…` : value, why);
  }
  return found;
}
function count({ tokens }, side) {
  return side === 'tgt' ? tokens.target.length : (tokens.source.length ? tokens.source : tokens.features).length;
}
