// @ts-nocheck: the lessons are translated Python.
// Fill lessons and check their tasks with a run of the page, as studio/lesson_answers.py does: the same functions,
// translated by studio/javascript/lesson_script.py.
import * as python from './python.js';
import * as torch from './torch.js';

const { call, dict, fromJson, toJson, tuple } = python;
const { Tensor } = torch;

const tensor = ({ shape, values }) => new Tensor(Float32Array.from(values), [...shape], 'float32');
const whole = values => new Tensor(Float64Array.from(values), [1, values.length], 'int64');

// ---- what Python's lessons need of the studio, by name

let now = null; // the run whose lesson is filled, as { run, help }
const helpers = {
  /** The catalogue entry of a trace point. */
  describe(name) {
    const { axes } = now.run.point(name);
    const [part, point] = name.split('.').slice(-2);
    const { meaning } = now.run.opened.catalogue[`${part.replace(/.*_/, '')}.${point}`];
    return { meaning, axes: tuple(['batch', ...axes]) };
  },
  steps: (_, [place], k) => fromJson(now.help.steps(now.run, [place, place + 1], k)),
  gradients(_network, _task, _example, { values: { of, keep } }) {
    const found = keep.map(name => [name, now.help.lossGradient(now.run, name, of)]);
    if (found.some(([, gradient]) => !gradient)) wrongInput(`of = ${of}: must be the position of a target`);
    return dict(found.map(([name, gradient]) => [name, tensor(gradient)]));
  },
  neighbours(_network, _tokenizer, word, count) {
    return now.help.neighbours(now.run, String(word), count) ?? wrongInput(`${word} is not a single known token`);
  },
  plane: (kind, problem, step, seed) => fromJson(now.help.plane(now.run, kind, problem, step, seed)),
};
const lessons = LESSONS(python, torch, helpers);
function wrongInput(message) {
  throw call(lessons.InputError, message);
}

// ---- a run as Python's lessons see it: studio/text_runs.py

/** A run of the page. @param {LocalRun} run */
function asPython(run) {
  const { example, opened, question, trace } = run;
  const { about, model } = opened;
  const { words, inputs } = example;
  const unknown = run.described().unknown;
  const side = name => {
    const tokenizer = model.tokenizers[name] ?? model.tokenizers.tokenizer;
    return words[name].length && tokenizer ? { name, tokenizer } : null;
  };
  return {
    text: question.text,
    off: question.off ?? [],
    output_point: opened.output,
    shapes: dict(trace.names().map(name => [name, tuple(run.get(name).shape)])),
    __getitem__: name => tensor(run.get(name)),
    get logits() {
      return tensor(run.logits);
    },
    answer: () => fromJson(run.answer()),
    unknown_in: given => (given === null ? [] : unknown[given.name]),
    outputs: { tokenizer: run.tokenizer },
    example: {
      source: side('source'),
      target: side('target'),
      words: Object.fromEntries(Object.entries(words).map(([name, labels]) => [name, tuple(labels)])),
      batch: { inputs: dict(Object.entries(inputs).map(([name, ids]) => [name, whole(ids)])) },
    },
    opened: {
      name: about.name,
      switches: about.switches.map(({ key }) => key),
      model: {
        facts: fromJson(model.about.facts ?? {}),
        task: null,
        network: {
          config: { model_dump: () => fromJson(model.config) },
          state_dict: () => [...model.weights.tensors].map(([name, weight]) => [name, tensor(weight)]),
        },
      },
    },
  };
}
const known = new WeakMap();
function pythonRun(run) {
  if (!known.has(run)) known.set(run, asPython(run));
  return known.get(run);
}
function answered(run, help, act) {
  now = { run, help };
  try {
    return toJson(act());
  } catch (error) {
    throw python.isinstance(error, lessons.InputError) ? new Error(python.str(error)) : error;
  }
}

// ---- what the page calls; help: the functions of local/lesson_help.js

/** Every stop of a lesson with its text and its address. */
export const onRun = (run, help, id) => answered(run, help, () => call(lessons.on_run, pythonRun(run), id));
/** Whether the task of a stop is done at an address of the page. unchanged: the run with nothing switched off. */
export function check(run, unchanged, help, { id, stop, address, typed }) {
  return answered(run, help, () => {
    const { length } = call(lessons.lesson, id).stops;
    if (!(stop >= 1 && stop <= length)) wrongInput(`stop: must be a whole number from 1 to ${length}, not '${stop}'`);
    return call(lessons.check, pythonRun(run), pythonRun(unchanged), id, stop, address, null, typed);
  });
}
