import { h } from '../dom.js';
export async function decode(stage) { stage.append(h('p', null, 'decode')); }
