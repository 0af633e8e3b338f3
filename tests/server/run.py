#!/usr/bin/env python3
"""The HTTP server under the OpenAI library and raw sockets; ends with `N passed, N failed`."""
import harness

harness.need_serve()
harness.enter_venv()

import test_logprobs
import test_sdk
import test_spill
import test_thinking
import test_wire


def strict_model(c, server):
    reply = server.post("/v1/chat/completions", {"model": "gpt", "messages": [
        {"role": "user", "content": "Hi"}], "max_tokens": 1})
    c.check("unknown model with --strict-model", reply[0] == 404 and
            reply[2]["error"]["code"] == "model_not_found", str(reply[0]))


ALL = test_sdk.ALL + test_logprobs.ALL + test_thinking.ALL + test_wire.FAST


def main():
    checks = harness.Checks()
    with harness.Server("--parallel", "4") as server:
        for function in ALL:
            checks.run(function.__name__, function, server)
    with harness.Server("--parallel", "1", "--queue", "1", "--strict-model") as server:
        for function in test_wire.ONE_SLOT + [strict_model]:
            checks.run(function.__name__, function, server)
    for function in test_spill.ALL:
        checks.run(function.__name__, function)
    checks.end()


main()
