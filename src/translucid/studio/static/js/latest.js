// One at a time, and then the newest that was wanted meanwhile: a pointer asks faster than a long text is read.
export function latest(act) {
  let busy = false;
  let next = null;
  return async function soon(...given) {
    if (busy) {
      next = given;
      return;
    }
    busy = true;
    try {
      await act(...given);
    } finally {
      busy = false;
      if (next) {
        const wanted = next;
        next = null;
        soon(...wanted);
      }
    }
  };
}
