import { MeshError } from './core/mesh_error.js';
import { listen } from './listen.js';
import { checkOptions, OF_METHODS } from './options.js';

/**
 * Returns a promise that an abort of the signal rejects.
 *
 * @param {AbortSignal | undefined} signal
 * @param {() => boolean | void} aborted is called then. Returns whether the request was sent
 * @param {(settle: (error?: unknown, value?: any) => void) => void} start `settle` rejects with an
 *   error, or resolves to the value
 * @returns {Promise<any>}
 */
export function abortable(signal, aborted, start) {
  checkOptions({ signal }, OF_METHODS);
  return new Promise((resolve, reject) => {
    const settle = (error, value) => {
      remove();
      if (error) reject(error);
      else resolve(value);
    };
    const abort = () => {
      const error = new MeshError('aborted');
      settle(error);
      error.wasSent = aborted() || false;
    };
    const remove = listen(signal, 'abort', abort);
    try {
      if (signal?.aborted) abort();
      else start(settle);
    } catch (error) {
      settle(error);
    }
  });
}
