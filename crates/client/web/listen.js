/**
 * Adds a listener to a page, document or signal, where there is one. Returns its remover.
 *
 * @param {EventTarget | undefined} target
 * @param {string} type
 * @param {(event: any) => void} listener
 */
export function listen(target, type, listener) {
  target?.addEventListener?.(type, listener);
  return () => target?.removeEventListener?.(type, listener);
}
