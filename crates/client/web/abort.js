/**
 * Calls `aborted` once the signal is aborted. Returns a function that ends this.
 *
 * @param {AbortSignal | undefined} signal
 * @param {() => void} aborted
 */
export function onAbort(signal, aborted) {
  signal?.addEventListener('abort', aborted);
  return () => signal?.removeEventListener('abort', aborted);
}
