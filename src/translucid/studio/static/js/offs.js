// From a part that is looked at to the switch that takes it away, in What-if.
import { address, go } from './route.js';
import { notice } from './readout.js';

export function switchFor(model, at, head) {
  const keys = model.switches.map(each => each.key);
  const scope = at.slice(0, at.lastIndexOf('.'));
  const wanted = [head === null ? null : `${scope}.head.${head}`, scope, scope.replace(/_residual(\.norm)?$/, ''), at];
  return (
    wanted.find(key => keys.includes(key)) ??
    keys.filter(key => at.startsWith(`${key}.`)).sort((a, b) => b.length - a.length)[0] ??
    null
  );
}
export function turnOff(model, at, head = null) {
  const key = switchFor(model, at, head);
  if (key === null) {
    notice('this part has no switch');
    return;
  }
  const off = new Set((address().params.get('off') ?? '').split(',').filter(Boolean));
  const there = [...off].find(each => each.split('@')[0] === key);
  there ? off.delete(there) : off.add(key);
  go('whatif', { off: [...off].join(',') || null });
}
