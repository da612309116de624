import { refuse } from './core/mesh_error.js';
import { isFunction } from './options.js';

/** Calls the listeners of an emitter. Only modules of the SDK emit. @type {Function} */
export let emit;

/**
 * Events with one argument each.
 *
 * @template {Record<string, any>} Events the argument by event
 */
export class Emitter {
  /** Listeners of each event, in the order added. */
  #listenersByType = new Map();

  static {
    emit = (emitter, type, event) => {
      for (const listener of new Set(emitter.#listenersByType.get(type))) {
        try {
          listener(event);
        } catch (error) {
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    };
  }

  /**
   * Adds a listener. An added one is not added again.
   *
   * @template {keyof Events} Type
   * @param {Type} type
   * @param {(event: Events[Type]) => void} listener one that throws is reported as uncaught
   * @returns {() => void} removes the listener
   */
  on(type, listener) {
    assertFunction(listener);
    const listeners = new Set(this.#listenersByType.get(type));
    this.#listenersByType.set(type, listeners.add(listener));
    return () => this.off(type, listener);
  }

  /**
   * Adds a listener for one event.
   *
   * @template {keyof Events} Type
   * @param {Type} type
   * @param {(event: Events[Type]) => void} listener
   * @returns {() => void} removes the listener
   */
  once(type, listener) {
    assertFunction(listener);
    const remove = this.on(type, (event) => {
      remove();
      listener(event);
    });
    return remove;
  }

  /**
   * Removes a listener of `on`.
   *
   * @template {keyof Events} Type
   * @param {Type} type
   * @param {(event: Events[Type]) => void} listener
   */
  off(type, listener) {
    this.#listenersByType.get(type)?.delete(listener);
  }
}

function assertFunction(listener) {
  if (!isFunction(listener)) refuse('listener', listener, 'a function');
}
