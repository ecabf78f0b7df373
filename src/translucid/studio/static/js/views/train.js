import { h } from '../dom.js';
export async function train(stage) { stage.append(h('p', null, 'train')); }
