#!/usr/bin/env python3
"""A signaling client in Python, written from PROTOCOL.md alone. README.md describes its use."""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import sys
import threading
import time
from urllib.parse import urlencode

import websockets
from websockets.exceptions import ConnectionClosed, InvalidHandshake

NAME = re.compile(r"[A-Za-z0-9._~:@-]{1,128}")
MAX_UNANSWERED = 1024
PING_EVERY, PING_ANSWER = 10, 5
BACKOFF_BASE, BACKOFF_CAP, STABLE_AFTER, POLICY_WAIT = 1, 30, 10, 30
NO_CLOSE_FRAME = 1006
GOODBYE, SOCKET_LEFT = 1000, 4001


class StayAway(Exception):
    """The server rejected this client permanently."""


def note(text):
    print(text, file=sys.stderr, flush=True)


def stays_away(code):
    return code in (1000, 1002, 1003, 1007, 1009) or 4400 <= code <= 4499


class Client:
    def __init__(self, args):
        self.args = args
        self.resume = None
        self.max_message_bytes = 65536
        self.last_id = 0
        self.unanswered = {}  # id -> text, in the order sent
        self.changed = asyncio.Condition()
        self.done = asyncio.Event()
        self.input_ended = False
        self.heard = 0.0
        self.retry_after = None

    # Sending.

    async def signal(self, to, data, ttl_ms=None):
        """Sends a signal that requests an ack, now or on the next connection."""
        message = {"type": "signal", "to": to, "data": data, "id": self.last_id + 1}
        if ttl_ms is not None:
            message["ttl_ms"] = ttl_ms
        text = json.dumps(message, separators=(",", ":"), allow_nan=False)
        if len(text) > self.max_message_bytes:
            raise ValueError(f"the message has {len(text)} bytes, {self.max_message_bytes} are allowed")
        async with self.changed:
            self.last_id += 1
            self.unanswered[self.last_id] = text
            self.changed.notify_all()

    async def take_line(self, line):
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.unanswered) < MAX_UNANSWERED)
        try:
            order = json.loads(line)
            to, ttl_ms = order["to"], order.get("ttl_ms")
            if not NAME.fullmatch(to) or not (ttl_ms is None or (type(ttl_ms) is int and ttl_ms >= 0)):
                raise ValueError("`to` or `ttl_ms` is wrong")
            await self.signal(to, order["data"], ttl_ms)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            note(f"not sent, {error!r}: {line.strip()[:200]}")

    async def end_input(self):
        self.input_ended = True
        self.finish_if_answered()

    def finish_if_answered(self):
        if self.resume and self.input_ended and not self.unanswered:
            self.done.set()

    # One connection.

    async def attend(self, ws):
        welcomed = asyncio.Event()
        works = (self.read(ws, welcomed), self.write(ws, welcomed), self.watch(ws), self.done.wait())
        jobs = [asyncio.ensure_future(work) for work in works]
        try:
            finished, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            for job in finished:
                job.result()
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            await ws.close(GOODBYE if self.done.is_set() else SOCKET_LEFT)

    async def read(self, ws, welcomed):
        while True:
            text = await ws.recv()
            self.heard = time.monotonic()
            # Line breaks in JSON are only white space between its tokens.
            print(text.replace("\r", " ").replace("\n", " "), flush=True)
            try:
                await self.handle(json.loads(text), welcomed)
            except (ValueError, RecursionError) as error:
                note(f"passed over: {error!r}")

    async def handle(self, message, welcomed):
        kind = message["type"]
        if kind == "welcome":
            self.resume = message["resume"]
            self.max_message_bytes = message["max_message_bytes"]
            welcomed.set()
            self.finish_if_answered()
        elif kind in ("ack", "error"):
            async with self.changed:
                self.unanswered.pop(message.get("id"), None)
                self.changed.notify_all()
            self.finish_if_answered()
        elif kind == "goodbye":
            self.retry_after = message.get("retry_after_ms", 0) / 1000 or None

    async def write(self, ws, welcomed):
        await welcomed.wait()
        sent = 0  # Per connection: a new one sends all unanswered messages again.
        while True:
            async with self.changed:
                await self.changed.wait_for(lambda: any(id > sent for id in self.unanswered))
                due = [(id, text) for id, text in self.unanswered.items() if id > sent]
            for sent, text in due:
                await ws.send(text)

    async def watch(self, ws):
        """Pings the server. Returns when it does not answer."""
        while True:
            await asyncio.sleep(PING_EVERY)
            asked = time.monotonic()
            try:
                await asyncio.wait_for(ws.send('{"type":"ping"}'), PING_ANSWER)
            except asyncio.TimeoutError:
                pass
            await asyncio.sleep(max(0, asked + PING_ANSWER - time.monotonic()))
            if self.heard < asked:
                note("nothing heard: the socket is dead")
                # Sends no close frame, because code 1000 would end the session.
                ws.transport.abort()
                return

    # Reconnecting.

    def connect(self):
        query = {"client_id": self.args.client_id}
        subprotocols = ["signaling.v1"]
        if self.args.token_file:
            with open(self.args.token_file, encoding="ascii") as file:
                subprotocols.append("bearer." + file.read().strip())
        if self.resume:
            subprotocols.append("resume." + self.resume)
        url = f"{self.args.url.rstrip('/')}/v1/connect?{urlencode(query)}"
        # Uses the protocol's `ping` instead of the library's.
        return websockets.connect(
            url, subprotocols=subprotocols, compression=None, max_size=None, ping_interval=None,
            open_timeout=10, close_timeout=2,
        )

    async def once(self):
        """Runs one connection. Returns the minimum wait before the next one, in seconds."""
        try:
            ws = await self.connect()
            await self.attend(ws)
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else NO_CLOSE_FRAME
            note(f"closed: {code} {closed.rcvd.reason if closed.rcvd else ''}")
            if stays_away(code):
                raise StayAway(code) from closed
            return POLICY_WAIT if code == 1008 else 0
        except InvalidHandshake as refused:
            answer = getattr(refused, "response", refused)
            status = getattr(answer, "status_code", None)
            note(f"refused: {refused}")
            if status is not None and status < 500 and status not in (401, 429):
                raise StayAway(status) from refused
            retry_after = getattr(answer, "headers", {}).get("Retry-After", "")
            self.retry_after = int(retry_after) if retry_after.isdigit() else None
        except (OSError, asyncio.TimeoutError) as error:
            note(f"no connection: {error!r}")
        return 0

    async def run(self):
        tries = 0
        while not self.done.is_set():
            began = time.monotonic()
            self.retry_after = None
            least = await self.once()
            now = time.monotonic()
            if now - began >= STABLE_AFTER:
                tries = 0
            if tries == 0:
                lost_at = now
            away = max(BACKOFF_BASE, 2 * (now - lost_at))
            wait = self.retry_after or random.uniform(0, min(BACKOFF_CAP, away, BACKOFF_BASE * 2 ** min(tries, 16)))
            tries += 1
            try:
                await asyncio.wait_for(self.done.wait(), max(wait, least))
            except asyncio.TimeoutError:
                pass


def feed(client, loop):
    for line in sys.stdin:
        if line.strip():
            asyncio.run_coroutine_threadsafe(client.take_line(line), loop).result()
    asyncio.run_coroutine_threadsafe(client.end_input(), loop).result()


async def main(args):
    client = Client(args)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, client.done.set)
    threading.Thread(target=feed, args=(client, loop), daemon=True).start()
    try:
        await client.run()
    except StayAway as code:
        note(f"rejected permanently: {code}")
        return 1
    return 0


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of the mesh, for instance ws://127.0.0.1:8080")
    parser.add_argument("client_id")
    parser.add_argument("--token-file", help="file with a JWT, read again for each connection")
    args = parser.parse_args()
    if not NAME.fullmatch(args.client_id):
        parser.error("client_id: 1 to 128 characters of A-Z a-z 0-9 . _ ~ : @ -")
    return args


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    status = asyncio.run(main(parse_args()))
    sys.stdout.flush()
    # A normal exit can crash while the thread reads stdin.
    os._exit(status)
