/** Returns the middle of an element and marks its next click. `page.rs` loads it for all tests. */
(selector) => {
  const element = document.querySelector(selector);
  element.scrollIntoView({ block: 'center', behavior: 'instant' });
  const { x, y, width, height } = element.getBoundingClientRect();
  const centre = { x: x + width / 2, y: y + height / 2 };
  const hit = document.elementFromPoint(centre.x, centre.y);
  window.isClicked = false;
  const click = () => { window.isClicked = true; };
  element.addEventListener('click', click, { capture: true, once: true });
  return { ...centre, isHit: width > 0 && element.contains(hit) };
}
