// @ts-nocheck: the exercises are translated Python.
// Solve an exercise with the numbers that a user typed, as `translucid work` does.
import * as python from '../../../../src/translucid/studio/static/js/python/python.js';
import * as modules from './modules.js';
import * as torch from '../../../../src/translucid/studio/static/js/python/torch.js';

const { again, details, exercises, Missing, quoted, TranslucidError } = EXERCISES(python, { ...torch, ...modules });
const { call, dict, isinstance, method, named, str } = python;
export { details };

const WIDTH = 80; // columns of the text

/** The command that prints the solution, word by word. values: texts by argument; true for a flag. */
export const command = (exercise, values) => [
  'translucid',
  'work',
  exercise.replaceAll('_', '-'),
  ...details[exercise].arguments
    .filter(({ name }) => name in values)
    .flatMap(({ name, option }) => (values[name] === true ? [option] : [option, values[name]])),
];
export const written = words => words.map(word => quoted(word)).join(' ');

/**
 * The solution as text and as a function that returns HTML, or the message of an error in the values.
 * @type {(exercise: string, values: Record<string, string | true>) => { text?: string; html?: () => string; error?: string }}
 */
export function solve(exercise, values) {
  const isWeight = ([name]) => details[exercise].arguments.some(argument => argument.name === name && argument.weight);
  const weights = Object.entries(values).filter(isWeight);
  const given = Object.fromEntries(Object.entries(values).filter(entry => !isWeight(entry)));
  if (weights.length) given.weights = dict(weights);
  try {
    const solution = call(exercises[exercise], named(given));
    if (solution.more) solution.next = again(command(exercise, values), solution.more);
    return { text: method(solution, 'text', WIDTH), html: () => method(solution, 'html') };
  } catch (error) {
    if (!isinstance(error, TranslucidError)) throw error;
    return { error: isinstance(error, Missing) ? method(error, 'as_options') : str(error) };
  }
}

/** The built-in example of an exercise, by argument; empty if it has no numbers to type. */
export const exampleOf = exercise => details[exercise].example;
