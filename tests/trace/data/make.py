#!/usr/bin/env python3
"""Writes the snapshots beside it: one small state in each form that PyTorch or a user produces."""

import gzip
import json
import pathlib
import pickle

BASE = 0x7F0000000000
STACK = [{"filename": "a.py", "name": "f", "line": 3}, {"filename": "b.py", "name": "g", "line": 70000}]

SEGMENT = {
    "device": 0, "address": BASE, "total_size": 2097152, "allocated_size": 1024, "active_size": 1536,
    "requested_size": 1400, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 1),
    "is_expandable": False, "frames": [],
    "blocks": [
        {"address": BASE, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": STACK},
        {"address": BASE + 1024, "size": 512, "requested_size": 400, "state": "active_pending_free",
         "frames": []},
        {"address": BASE + 1536, "size": 2095616, "requested_size": 77, "state": "inactive", "frames": []},
    ],
}
EVENTS = [
    {"action": "segment_alloc", "addr": BASE, "size": 2097152, "stream": 0, "time_us": 1700000000000000,
     "frames": []},
    {"action": "alloc", "addr": BASE, "size": 1000, "stream": 0, "time_us": 1700000000000005, "frames": STACK},
    {"action": "oom", "device_free": 2**33, "size": 512, "stream": 0},
    {"action": "alloc", "addr": BASE + 1024, "size": 400, "stream": 2**63 + 5, "frames": []},
    {"action": "user_defined", "addr": 0, "size": 0, "stream": 0},
]
SNAPSHOT = {
    "segments": [SEGMENT],
    "device_traces": [EVENTS, []],
    "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.5,
        "expandable_segments": False,
        "roundup_power2_divisions": {str(1 << i): 4 for i in range(16)},
    },
    "external_annotations": [
        {"name": "step", "stage": "START", "device": 0, "time_us": 5},
        {"name": "step", "stage": "END", "device": 0, "time_us": 9},
    ],
}
# Before 2.1 a block had a history and no address, an event no time.
OLD = {
    "segments": [{
        "device": 0, "address": BASE, "total_size": 2097152, "allocated_size": 1536, "active_size": 1536,
        "requested_size": 1400, "stream": 0, "segment_type": "small",
        "blocks": [
            {"size": 1024, "requested_size": 1000, "state": "active_allocated",
             "history": [{"addr": BASE, "real_size": 1000, "frames": STACK}]},
            {"size": 512, "requested_size": 400, "state": "active_allocated"},
            {"size": 2095616, "state": "inactive"},
        ],
    }],
    "device_traces": [[{"action": "snapshot", "addr": 0, "size": 1536, "stream": 0}]],
}

here = pathlib.Path(__file__).parent
for protocol in (2, 3, 4, 5):
    (here / f"protocol_{protocol}.pickle").write_bytes(pickle.dumps(SNAPSHOT, protocol))
(here / "bare_list.pickle").write_bytes(pickle.dumps([SEGMENT], 4))
(here / "old.pickle").write_bytes(pickle.dumps(OLD, 4))
(here / "gzipped.pickle.gz").write_bytes(gzip.compress(pickle.dumps(SNAPSHOT, 4), mtime=0))
(here / "snapshot.json").write_text(json.dumps(SNAPSHOT) + "\n")
