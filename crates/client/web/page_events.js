/**
 * Reports the page's events to `client.js`, where there is a page. Returns a function that ends
 * this.
 *
 * @param {object} on
 * @param {() => void} on.networkChanged the network is back or lost
 * @param {(isKept: boolean) => void} on.left `isKept`: the browser may show the page again
 * @param {() => void} on.shownAgain the browser shows a page again that was left with `isKept`
 * @param {() => void} on.hidden timers come late from now on
 * @param {() => void} on.visible the page is visible after `on.hidden`
 */
export function watchPage(on) {
  const removers = [];
  const listen = (target, type, listener) => {
    target?.addEventListener?.(type, listener);
    removers.push(() => target?.removeEventListener?.(type, listener));
  };
  const { document } = globalThis;
  listen(globalThis, 'online', on.networkChanged);
  listen(globalThis, 'offline', on.networkChanged);
  listen(globalThis, 'pagehide', ({ persisted }) => on.left(persisted));
  listen(globalThis, 'pageshow', ({ persisted }) => persisted && on.shownAgain());
  listen(document, 'visibilitychange', () => (document.hidden ? on.hidden() : on.visible()));
  return () => removers.forEach((remove) => remove());
}
