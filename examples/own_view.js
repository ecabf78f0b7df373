// A view of your own in one file: how certain is the model at each position?
//
//     translucid explore demo:translate --view examples/own_view.js
//
// The file exports one object. `draw` fills the stage with elements. `run` is the text that the model has read,
// `params` are the parts of the page's address, and `signal` is aborted when the user leaves the view. `api` asks the
// studio's server for tensors, predictions and more: see src/translucid/studio/static/js/api.js.
import { h } from '/static/js/dom.js';
import * as api from '/static/js/api.js';

const percent = probability => `${(100 * probability).toFixed(1)} %`;

export default {
  name: 'Certainty', // in the bar

  // The reason why a model has no such view, or ''.
  lacks: model => (model.family === 'mlp' ? 'This model reads no text' : ''),

  async draw(stage, { run }) {
    const { steps } = await api.steps(run.run, { k: 1 });
    stage.append(
      h(
        'table',
        { 'aria-label': 'Most probable output at each position' },
        h('tr', {}, h('th', {}, 'position'), h('th', {}, 'most probable'), h('th', {}, 'probability')),
        steps.map(({ n, words, probabilities }) =>
          h('tr', {}, h('td', {}, `${n}`), h('td', {}, words[0]), h('td', {}, percent(probabilities[0]))),
        ),
      ),
    );
  },
};
