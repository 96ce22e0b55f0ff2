"""What the peers print of themselves: times a call, and counts the operations of one."""

import json
import resource
import time

import torch
from torch.utils.flop_counter import FlopCounterMode


def report(once, runs, per_call=1, warm=1, counted=True):
    """Calls `once` a few times and prints one JSON line: the best time in ms per image (`per_call` of them in a call), the least processor time of a call
    in seconds, multiplications and additions per image, and the peak resident memory in MB."""
    operations = None
    for _ in range(warm):
        if counted:
            with FlopCounterMode(display=False) as counter:
                once()
            operations = counter.get_total_flops() / per_call
        else:
            once()
    times, processor = [], []
    for _ in range(runs):
        started, before = time.perf_counter(), time.process_time()
        once()
        times.append(time.perf_counter() - started)
        processor.append(time.process_time() - before)
    print(json.dumps({
        "ms_per_image": 1e3 * min(times) / per_call, "processor_seconds": min(processor), "operations": operations,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3), "engine": f"torch {torch.__version__}",
    }))
