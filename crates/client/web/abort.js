import { MeshError } from './core/mesh_error.js';
import { listen } from './listen.js';

/**
 * Returns a promise that an abort of the signal rejects.
 *
 * @param {AbortSignal | undefined} signal
 * @param {() => boolean | void} aborted is called then. Returns whether the request was sent
 * @param {(resolve: (value?: any) => void, reject: (error: unknown) => void) => void} start
 * @returns {Promise<any>}
 */
export function abortable(signal, aborted, start) {
  let remove;
  const result = new Promise((resolve, reject) => {
    const abort = () => {
      const error = new MeshError('aborted');
      reject(error);
      error.wasSent = aborted() || false;
    };
    remove = listen(signal, 'abort', abort);
    if (signal?.aborted) abort();
    else start(resolve, reject);
  });
  // Not by `finally`, whose promise settles later.
  result.then(remove, remove);
  return result;
}
