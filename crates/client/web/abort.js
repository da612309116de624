import { MeshError } from './core/mesh_error.js';
import { listen } from './listen.js';
import { checkOptions, OF_METHODS } from './options.js';

/**
 * Returns a promise that an abort of the signal rejects.
 *
 * @param {AbortSignal | undefined} signal
 * @param {() => boolean | void} aborted is called then. Returns whether the request was sent
 * @param {(resolve: (value?: any) => void, reject: (error: unknown) => void) => void} start
 * @returns {Promise<any>}
 */
export function abortable(signal, aborted, start) {
  checkOptions({ signal }, OF_METHODS);
  return new Promise((resolve, reject) => {
    const end = (settle) => (value) => {
      remove();
      settle(value);
    };
    const abort = () => {
      const error = new MeshError('aborted');
      end(reject)(error);
      error.wasSent = aborted() || false;
    };
    const remove = listen(signal, 'abort', abort);
    if (signal?.aborted) return abort();
    try {
      start(end(resolve), end(reject));
    } catch (error) {
      end(reject)(error);
    }
  });
}
