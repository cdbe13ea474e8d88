// What is wrong with the page for people who see little, hear it, or have no mouse; [] = nothing.
() => {
  const faults = [], seen = (e) => e.getClientRects().length && getComputedStyle(e).visibility !== 'hidden';
  const where = (e) => e.outerHTML.slice(0, 120);
  const text = (id) => document.getElementById(id)?.textContent.trim();
  const nameOf = (e) => e.getAttribute('aria-label')?.trim() || (e.getAttribute('aria-labelledby') ?? '').split(/\s+/).map(text).filter(Boolean).join(' ')
    || [...(e.labels ?? [])].map((l) => l.textContent.trim()).join(' ') || e.textContent.trim() || e.getAttribute('alt') || '';
  if (!document.documentElement.lang) faults.push('the page has no language');
  if (!document.title) faults.push('the page has no title');
  if (document.querySelectorAll('main').length !== 1) faults.push('there is not one main');
  const heads = [...document.querySelectorAll('h1,h2,h3,h4')].filter((e) => e.getClientRects().length);
  if (heads.filter((e) => e.tagName === 'H1').length !== 1) faults.push('there is not one h1');
  let last = 0;
  for (const e of [...document.querySelectorAll('main h1, main h2, main h3')]) {
    const level = Number(e.tagName[1]);
    if (seen(e) && level > last + 1 && last) faults.push(`heading skips a level: ${where(e)}`);
    if (seen(e)) last = level;
  }
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((i) => i === id).length > 1) faults.push(`id twice: ${id}`);
  for (const e of document.querySelectorAll('a[href], button, input, select, canvas, [role=img], [role=application], section')) {
    if (!seen(e) || (e.tagName === 'CANVAS' && e.closest('[aria-hidden=true]'))) continue;
    if (!nameOf(e)) faults.push(`without a name: ${where(e)}`);
    if (e.closest('[aria-hidden=true]') && e.matches('a,button,input,select')) faults.push(`hidden but can be reached: ${where(e)}`);
  }
  for (const e of document.querySelectorAll('img')) if (!e.hasAttribute('alt')) faults.push(`image without alt: ${where(e)}`);
  for (const e of document.querySelectorAll('[aria-labelledby],[aria-describedby]')) {
    for (const id of (e.getAttribute('aria-labelledby') ?? e.getAttribute('aria-describedby')).split(/\s+/)) if (!document.getElementById(id)) faults.push(`refers to nothing: ${where(e)}`);
  }
  for (const e of document.querySelectorAll('table')) {
    if (!e.querySelector('th[scope]')) faults.push(`table without heads: ${where(e)}`);
    if (!e.caption) faults.push(`table without a caption: ${where(e)}`);
  }
  for (const e of document.querySelectorAll('ul,ol')) for (const c of e.children) if (c.tagName !== 'LI') faults.push(`list of other things: ${where(e)}`);
  for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) faults.push(`order of its own: ${where(e)}`);
  // -- contrast, WCAG 2 AA
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return c.startsWith('color(') ? [m[0] * 255, m[1] * 255, m[2] * 255, m[3] ?? 1] : [m[0], m[1], m[2], m[3] ?? 1]; };
  const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = (e) => { const stack = []; for (let p = e; p; p = p.parentElement) stack.push(parse(getComputedStyle(p).backgroundColor)); return stack.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]); };
  const told = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || !seen(e) || e.closest('.unseen, .skip, script, noscript, datalist, svg, option') || e.disabled) continue;
    const style = getComputedStyle(e), under = ground(e), ink = over(parse(style.color), under), [a, b] = [light(ink), light(under)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) { const k = e.className + style.color; if (!told.has(k)) { told.add(k); faults.push(`contrast ${ratio.toFixed(2)}: ${where(e)}`); } }
  }
  return faults;
}
