// The views of the studio, in the order of the navigation bar. A view is described by one object:
//   name         in the bar
//   draw(el, { all, model, run, catalogue, params, signal })  fills its own element (mount.js). signal is aborted when
//                the view is left, and ends listeners outside el, timers, observers and sockets
//   lacks(model, all)  why a model has no such view, or ''
//   busy({ model, params })  the message while it computes
//   about        { shows, read, terms }: what it shows and how to read it, for Help and the first page; terms of
//                glossary.js
//   keys         what its keys do: [['↑ ↓', 'previous or next layer'], ...]; keysTitle: of their list
//   walksTokens  whether ← and → go from token to token
//   linkParts    its keys in a link, each with a check of the value (see route.js)
//   linkTo       what its link in the bar changes in the address
//   withoutModel whether it works for a run without a saved model
// Its styles are in css/views, which index.html lists.
import { flow } from './flow.js';
import { attention } from './attention.js';
import { recurrent } from './recurrent.js';
import { decode } from './decode.js';
import { whatif } from './whatif.js';
import { compare } from './compare.js';
import { train } from './train.js';
import { lesson } from './lesson.js';
import { data } from './data.js';
import { practice } from './practice.js';

/** @type {Record<string, View>} */
export const VIEWS = { flow, attention, recurrent, decode, whatif, compare, train, lesson, data, practice };
