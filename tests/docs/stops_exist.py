"""Does every stop of docs/one-token.md name a file and a function defined in it?"""
import os
import re
import sys

root = os.environ["LF_SOURCE_ROOT"]
failed = passed = 0
with open(f"{root}/docs/one-token.md") as page:
    for row in re.findall(r"^\|[^|]*\| `([^`]+)` \| `([^`]+)` \|$", page.read(), re.M):
        path, function = row
        try:
            text = open(f"{root}/{path}").read()
        except FileNotFoundError:
            text = ""
        # A kernel's name stands inside LF_KERNEL_NAME(...) where it is defined.
        found = re.search(rf"^[A-Za-z_].*\b{function}\b[^;]*?\{{", text, re.M | re.S)
        passed, failed = passed + bool(found), failed + (not found)
        if not found:
            print(f"docs/one-token.md: {path} does not define {function}")
# A dozen stops at least: an emptied table must not pass.
failed += passed + failed < 12
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
