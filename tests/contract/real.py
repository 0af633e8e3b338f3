"""Is every kind of layer of the checkpoint named by LF_REAL within its limits of float64?"""
import os
import subprocess
import sys

SKIPPED = 77
model = os.environ.get("LF_REAL")
if not model:
    print("SKIP: LF_REAL names no checkpoint")
    sys.exit(SKIPPED)
sys.exit(subprocess.run([os.environ["LF_BINARY"], "verify", model]).returncode)
