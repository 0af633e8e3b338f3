"""Are the README's commands and files there, and has every folder of src/ its README?"""
import os
import re
import sys

root = os.environ["LF_SOURCE_ROOT"]
failed = passed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(what)


readme = open(f"{root}/README.md").read()
makefile = open(f"{root}/Makefile").read()
for path in set(re.findall(r"`((?:docs|models|src|tools)/[\w./-]+)`", readme)):
    check(os.path.exists(f"{root}/{path}"), f"README.md names {path}, which is not there")
contributing = open(f"{root}/CONTRIBUTING.md").read()
for target in set(re.findall(r"\bmake ([a-z]+)\b", readme + contributing)):
    check(re.search(rf"^{target}:", makefile, re.M), f"make {target} is not in the Makefile")
first = [line.strip() for line in readme.split("\n") if line.startswith("    ")][:2]
check(first[0].startswith("make run") and first[1].startswith("make test"),
      "README.md does not begin with make run and make test")
for folder in sorted(os.listdir(f"{root}/src")):
    if os.path.isdir(f"{root}/src/{folder}"):
        check(os.path.isfile(f"{root}/src/{folder}/README.md"), f"src/{folder} has no README.md")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
