import { h } from '../dom.js';
export async function flow(stage) { stage.append(h('p', null, 'flow')); }
