/** React hook for rooms. */

import { useCallback, useEffect, useRef, useSyncExternalStore } from 'react';

/** Number of mounted components by room. */
const usersByRoom = new WeakMap();

/**
 * Joins a room while the component is mounted, and renders it again after each change of the room.
 * `room.state` has the result. A join that failed is repeated when the client's state changes.
 *
 * @template [Data=any] data that members show
 * @param {import('./client.js').Client<any>} client
 * @param {string} name
 * @param {{data?: Data}} [options] other data is shown at once; the former one stays without data
 * @returns {import('./room.js').Room<Data, any>}
 */
export function useRoom(client, name, { data } = {}) {
  const room = client.room(name);
  const subscribe = useCallback((changed) => room.on('change', changed), [room]);
  const revision = () => room.revision;
  useSyncExternalStore(subscribe, revision, revision);
  const latest = useRef(data);
  /** The latest data that the room was joined with, as JSON. */
  const shown = useRef(/** @type {string | undefined} */ (undefined));
  const show = useCallback(() => {
    const text = JSON.stringify(latest.current);
    if (room.state !== 'out' && (text === undefined || text === shown.current)) return;
    shown.current = text;
    room.join({ data: latest.current }).catch(() => (shown.current = undefined));
  }, [room]);
  useEffect(() => {
    usersByRoom.set(room, (usersByRoom.get(room) ?? 0) + 1);
    // The client may start after its components, and its session may have the room.
    const remove = client.on('state', show);
    return () => {
      remove();
      shown.current = undefined;
      usersByRoom.set(room, usersByRoom.get(room) - 1);
      if (usersByRoom.get(room) === 0) room.leave().catch(() => {});
    };
  }, [client, room]);
  useEffect(() => {
    latest.current = data;
    show();
  }, [room, JSON.stringify(data)]);
  return room;
}
