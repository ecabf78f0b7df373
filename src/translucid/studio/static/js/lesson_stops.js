// Which stops of a lesson apply to a model and its sentence. Stops are counted from 1.

/** @type {(step: LessonStep) => boolean} */
export const applies = step => step.lacks === undefined;
/** @type {(steps: LessonStep[]) => number} */
export const countApplying = steps => steps.filter(applies).length;
// The nearest stop that applies, after (by 1) or before (by -1) a place; null: none.
/** @type {(steps: LessonStep[], place: number, by: 1 | -1) => number | null} */
export function nearestStop(steps, place, by) {
  for (let k = place + by; k >= 1 && k <= steps.length; k += by) if (applies(steps[k - 1])) return k;
  return null;
}
// The stops just before a place that do not apply.
/** @type {(steps: LessonStep[], place: number) => LessonStep[]} */
export const skippedBefore = (steps, place) => steps.slice(nearestStop(steps, place, -1) ?? 0, place - 1);
// The lessons that suit a model come first.
/** @type {(lessons: Lesson[]) => Lesson[]} */
export const bestFirst = lessons => {
  /** @type {(lesson: Lesson) => number} */
  const share = ({ steps }) => countApplying(steps) / steps.length;
  return lessons.toSorted((a, b) => share(b) - share(a));
};
// Titles of stops by the reason why they do not apply.
/** @type {(steps: LessonStep[]) => string} */
export const reasons = steps =>
  [...new Set(steps.map(step => step.lacks))]
    .map(why => {
      const titles = steps.filter(step => step.lacks === why).map(step => step.title.toLowerCase());
      return `${titles.join(', ')}: ${why}`;
    })
    .join('; ');
// The lesson and the stop that an address names, as in clock.3; place: NaN without one.
/** @type {(named: string | null) => { id: string | undefined; place: number }} */
export const stopNamed = named => {
  const [, id, place] = /^([\w-]+)\.(\d+)$/.exec(named ?? '') ?? [];
  return { id, place: Number(place) };
};
