"""Events of a thread for the readers of a loop: all come, in order, and the loop is woken once for many."""

from __future__ import annotations

import asyncio
from threading import Thread

from anyformer.serving.loop_post import LoopPost
from anyformer.serving.served_text import TextEvent

COUNT = 20_000


def test_events_of_a_thread_all_come_in_order():
    async def read():
        post, queues = LoopPost(asyncio.get_running_loop()), [asyncio.Queue(), asyncio.Queue()]
        thread = Thread(target=lambda: [post.put(queues[n % 2], TextEvent(n)) for n in range(COUNT)])
        thread.start()
        async with asyncio.timeout(60):
            found = [[(await queue.get()).number for _ in range(COUNT // 2)] for queue in queues]
        thread.join()
        return found

    assert asyncio.run(read()) == [list(range(0, COUNT, 2)), list(range(1, COUNT, 2))]


class CountedLoop:
    """Keeps what it is called for."""

    def __init__(self):
        self.called = []

    def call_soon_threadsafe(self, call):
        self.called.append(call)


def test_the_loop_is_woken_once_for_all_that_waits():
    loop, queue = CountedLoop(), asyncio.Queue()
    post = LoopPost(loop)
    for turn in range(1, 3):
        for number in range(5):
            post.put(queue, TextEvent(number))
        assert len(loop.called) == turn
        loop.called[-1]()
        assert queue.qsize() == 5 * turn
