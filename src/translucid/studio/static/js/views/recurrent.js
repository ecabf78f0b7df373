import { h } from '../dom.js';
export async function recurrent(stage) { stage.append(h('p', null, 'recurrent')); }
