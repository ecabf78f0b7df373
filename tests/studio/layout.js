// What is wrong with how texts lie on the page: a list of findings, empty where all is well.
() => {
  const style = new Map();
  const of = el => {
    if (!style.has(el)) style.set(el, getComputedStyle(el));
    return style.get(el);
  };
  const ups = el => {
    const all = [];
    for (let up = el; up && up !== document.documentElement; up = up.parentElement) all.push(up);
    return all;
  };
  const inner = el => el instanceof SVGElement && el.tagName !== 'svg';
  const shows = el =>
    ups(el).every(up => of(up).display !== 'none' && of(up).visibility !== 'hidden' && Number(of(up).opacity) > 0);
  const rolls = up => /auto|scroll/.test(of(up).overflowX + of(up).overflowY);
  // What of a box is left within the boxes that cut it off.
  const clipped = (box, el) => {
    const left = {
      l: Math.max(0, box.left),
      t: Math.max(0, box.top),
      r: Math.min(innerWidth, box.right),
      b: Math.min(innerHeight, box.bottom),
    };
    for (const up of ups(el))
      if (!inner(up) && (of(up).overflowX !== 'visible' || of(up).overflowY !== 'visible')) {
        const o = up.getBoundingClientRect();
        left.l = Math.max(left.l, o.left);
        left.t = Math.max(left.t, o.top);
        left.r = Math.min(left.r, o.right);
        left.b = Math.min(left.b, o.bottom);
      }
    return left;
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const el = node.parentElement;
    if (!node.data.trim() || el.closest('script,noscript,option,math,.unseen,.skip') || !shows(el)) continue;
    const range = document.createRange();
    const owner = el.closest('text') ?? el;
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      const c = clipped(box, el);
      const size = parseFloat(of(el).fontSize);
      if (box.width < 1 || c.r - c.l < 2 || c.b - c.t < 2) continue;
      const air = Math.max(0, box.height - size * 0.95) / 2; // a line is higher than its letters
      texts.push({
        owner,
        say: node.data.trim().slice(0, 40),
        box,
        ...c,
        t: Math.max(c.t, box.top + air),
        b: Math.min(c.b, box.bottom - air),
        size,
        free: owner.hasAttribute('transform') || ups(owner).some(up => of(up).position === 'sticky'),
      }); // leaning, or lying above what rolls
    }
  }
  const wrong = new Set();
  texts
    .sort((a, b) => a.t - b.t)
    .forEach((a, i) => {
      for (let k = i + 1; k < texts.length && texts[k].t < a.b - 2.5; k++) {
        const b = texts[k];
        const wide = Math.min(a.r, b.r) - Math.max(a.l, b.l);
        const high = Math.min(a.b, b.b) - b.t;
        if (a.owner !== b.owner && !a.free && !b.free && wide > 2 && high > 2.5)
          wrong.add(
            `‘${a.say}’ lies on ‘${b.say}’ by ${[wide, high].map(each => each.toFixed()).join(' x ')} ` +
              `at ${b.l.toFixed()}, ${b.t.toFixed()}`,
          );
      }
    });
  for (const { owner, say, box, size } of texts) {
    if (size < 13.9 && !owner.closest('sub,sup')) wrong.add(`‘${say}’ is set in ${size} px`);
    for (const up of ups(owner)) {
      if (inner(up)) continue;
      const o = up.getBoundingClientRect();
      if (rolls(up) && box.left < o.left - up.scrollLeft - 1.5)
        wrong.add(`‘${say}’ lies left of where one can roll to`);
      if (rolls(up) || of(up).textOverflow === 'ellipsis') break; // it can be rolled to, or says that it is cut
      const framed = of(up).borderTopWidth !== '0px' || of(up).overflowX === 'hidden' || up === document.body;
      if (
        framed &&
        (box.left < o.left - 1.5 || box.right > o.right + 1.5 || box.bottom > o.bottom + 3 || box.top < o.top - 3)
      ) {
        wrong.add(`‘${say}’ leaves ${up.tagName.toLowerCase()}.${up.getAttribute('class') ?? ''}`);
        break;
      }
    }
  }
  for (const el of document.querySelectorAll('button, select, input, a[href]')) {
    const { width, height } = el.getBoundingClientRect();
    if (!width || of(el).display === 'inline' || el.closest('.skip') || !shows(el)) continue; // part of a sentence
    if (Math.min(width, height) < 23.9)
      wrong.add(
        `‘${el.getAttribute('aria-label') ?? el.textContent}’ is ${width.toFixed(1)} x ${height.toFixed(1)} px`,
      );
  }
  const foot = document.getElementById('readout').getBoundingClientRect().top;
  for (const el of document.querySelectorAll('#stage canvas')) {
    const c = clipped(el.getBoundingClientRect(), el);
    if (c.b > foot + 1 && c.r > c.l) wrong.add('a picture lies on the read-out');
    for (const panel of document.querySelectorAll('#stage .panel'))
      if (!panel.contains(el) && shows(panel)) {
        const o = panel.getBoundingClientRect();
        if (Math.min(c.r, o.right) - Math.max(c.l, o.left) > 2 && Math.min(c.b, o.bottom) - Math.max(c.t, o.top) > 2)
          wrong.add('a picture lies on the panel');
      }
  }
  return [...wrong];
};
