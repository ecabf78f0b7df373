// The views of the studio: their names, what draws them, and why a model may lack one.
// draw(stage, { all, model, run, catalogue, params, signal }) fills the stage; signal is aborted when the view is left.
import { flow } from './flow.js';
import { attention } from './attention.js';
import { recurrent } from './recurrent.js';
import { decode } from './decode.js';
import { whatif } from './whatif.js';
import { compare } from './compare.js';
import { data } from './data.js';
import { train } from './train.js';
import { plane } from './plane.js';
import { lesson } from './lesson.js';

const cells = ['rnn', 'rnn_relu', 'lstm', 'gru'];
export const VIEWS = {
  flow: { name: 'Flow', draw: flow },
  attention: {
    name: 'Attention',
    draw: attention,
    lacks: model =>
      (model.family !== 'transformer' && model.config.attention === 'none') ||
      model.family === 'mlp' ||
      (cells.includes(model.family) && model.shape !== 'encoder-decoder')
        ? 'This model has no attention'
        : '',
  },
  recurrent: {
    name: 'Recurrent',
    draw: recurrent,
    lacks: model => (cells.includes(model.family) ? '' : 'This model has no recurrent part'),
  },
  decode: {
    name: 'Decode',
    draw: decode,
    lacks: model => (model.generates ? '' : 'This model writes nothing'),
  },
  whatif: { name: 'What-if', draw: whatif },
  compare: {
    name: 'Compare',
    draw: compare,
    lacks: (_, all) => (all.length > 1 ? '' : 'Open two models: translucid explore A B'),
  },
  train: {
    name: 'Train',
    draw: (stage, found) => (found.model.plane ? plane : train)(stage, found),
    lacks: model => (model.trains || model.plane ? '' : 'Open the run folder that training wrote, not a model alone'),
  },
  lesson: { name: 'Lesson', draw: lesson },
  data: { name: 'Data', draw: data },
};
