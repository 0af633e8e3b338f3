"""The published OpenAI library against the server: chat, completions, models, errors."""
import openai


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)


def ask(text, **more):
    return {"model": "demo", "messages": [{"role": "user", "content": text}], "temperature": 0,
            **more}


THINK = {"extra_body": {"thinking": {"type": "enabled"}}}
PLAIN = {"extra_body": {"thinking": {"type": "disabled"}}}
WEATHER = [{"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city",
    "parameters": {"type": "object", "properties": {
        "location": {"type": "string", "description": "City name"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
        "required": ["location"]}}}]


def fold(stream):
    """A chat stream as one message."""
    out = {"content": "", "reasoning": "", "calls": [], "finish": None, "usage": None, "chunks": 0,
           "extra": None, "ids": set()}
    for chunk in stream:
        out["chunks"] += 1
        out["ids"].add(chunk.id)
        out["usage"] = chunk.usage or out["usage"]
        out["extra"] = (chunk.model_extra or {}).get("lanefold") or out["extra"]
        for choice in chunk.choices:
            delta = choice.delta
            out["content"] += delta.content or ""
            out["reasoning"] += (delta.model_extra or {}).get("reasoning_content") or ""
            for call in delta.tool_calls or []:
                if call.id:
                    out["calls"].append([call.function.name, ""])
                out["calls"][call.index][1] += call.function.arguments or ""
            out["finish"] = choice.finish_reason or out["finish"]
    return out


def chat_same_streamed(c, server):
    api = client_of(server)
    for text, mode in (("Hello!", PLAIN), ("What is 47 + 38?", THINK),
                       ("Sort the words: turtle peach grape", PLAIN)):
        whole = api.chat.completions.create(**ask(text), **mode)
        message = whole.choices[0].message
        parts = fold(api.chat.completions.create(
            **ask(text, stream=True, stream_options={"include_usage": True}), **mode))
        reasoning = (message.model_extra or {}).get("reasoning_content") or ""
        c.check("content streamed = whole", parts["content"] == (message.content or ""), text)
        c.check("content is not empty", bool(message.content), text)
        c.check("reasoning streamed = whole", parts["reasoning"] == reasoning, text)
        c.check("reasoning with thinking only", bool(reasoning) == (mode is THINK), text)
        c.check("finish", parts["finish"] == whole.choices[0].finish_reason == "stop", text)
        c.check("usage", parts["usage"].completion_tokens == whole.usage.completion_tokens, text)
        c.check("one id a stream", len(parts["ids"]) == 1)
        c.check("same tokens", parts["extra"]["token_sha256"] ==
                whole.model_extra["lanefold"]["token_sha256"], text)
        c.check("several chunks", parts["chunks"] >= 4, str(parts["chunks"]))


def tools_same_streamed(c, server):
    api = client_of(server)
    request = ask("What is the weather in Paris?", tools=WEATHER)
    whole = api.chat.completions.create(**request, **PLAIN)
    calls = [[call.function.name, call.function.arguments]
             for call in whole.choices[0].message.tool_calls or []]
    parts = fold(api.chat.completions.create(**{**request, "stream": True}, **PLAIN))
    c.check("a call", calls and calls[0][0] == "get_weather" and "Paris" in calls[0][1], str(calls))
    c.check("calls streamed = whole", parts["calls"] == calls, str(parts["calls"]))
    c.check("finish tool_calls", parts["finish"] == whole.choices[0].finish_reason == "tool_calls")


def completions_same_streamed(c, server):
    api = client_of(server)
    request = {"model": "demo", "prompt": "def fib(n):\n", "max_tokens": 40, "temperature": 0}
    whole = api.completions.create(**request)
    text = "".join(chunk.choices[0].text for chunk in api.completions.create(**request, stream=True)
                   if chunk.choices)
    c.check("text streamed = whole", text == whole.choices[0].text and text)
    c.check("object", whole.object == "text_completion")
    stopped = api.completions.create(**request, stop=["for"])
    c.check("stop string cuts", stopped.choices[0].text == whole.choices[0].text.split("for")[0])
    c.check("stop reason", stopped.choices[0].finish_reason == "stop")
    short = api.completions.create(**{**request, "max_tokens": 3})
    c.check("length", short.choices[0].finish_reason == "length" and
            short.usage.completion_tokens == 3)
    ids = api.completions.create(**{**request, "prompt": [10, 20, 30]},
                                 extra_body={"return_prompt_token_ids": True})
    c.check("ids as prompt", ids.model_extra["lanefold"]["prompt_token_ids"] == [10, 20, 30])


def models(c, server):
    api = client_of(server)
    listed = list(api.models.list())
    c.check("one model", len(listed) == 1 and listed[0].object == "model")
    c.check("its own route", api.models.retrieve(listed[0].id).id == listed[0].id)
    c.check("its context", listed[0].model_extra["max_model_len"] > 0)
    try:
        api.models.retrieve("nothing")
        c.check("unknown model raises", False)
    except openai.NotFoundError as error:
        c.check("unknown model raises", error.code == "model_not_found")


def seeds_repeat(c, server):
    api = client_of(server)

    def sha(**more):
        request = {**ask("Tell me a story."), "temperature": 1.5, "max_tokens": 24, **more}
        reply = api.chat.completions.create(**request, **PLAIN)
        return reply.model_extra["lanefold"]["token_sha256"], reply.model_extra["lanefold"]["seed"]

    c.check("same seed, same tokens", sha(seed=7)[0] == sha(seed=7)[0])
    c.check("other seed, other tokens", len({sha(seed=i)[0] for i in range(4)}) > 1)
    c.check("no seed repeats", sha() == sha())
    c.check("a seed of 64 bits", sha(seed=2**64 - 1)[1] == str(2**64 - 1))
    c.check("a negative seed", sha(seed=-1)[1] == str(2**64 - 1))


def wrong_requests_raise(c, server):
    api = client_of(server)
    rows = [
        ({"temperature": 3}, openai.BadRequestError, "invalid_value", "temperature"),
        ({"temperature": "hot"}, openai.BadRequestError, "invalid_type", "temperature"),
        ({"n": 2}, openai.BadRequestError, "unsupported_value", "n"),
        ({"presence_penalty": 1}, openai.BadRequestError, "unsupported_parameter",
         "presence_penalty"),
        ({"top_logprobs": 3}, openai.BadRequestError, "invalid_value", "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, openai.BadRequestError, "invalid_value",
         "top_logprobs"),
        ({"logprobs": 5}, openai.BadRequestError, "invalid_type", "logprobs"),
        ({"logit_bias": {"5": 10}}, openai.BadRequestError, "unsupported_parameter", "logit_bias"),
        ({"messages": []}, openai.BadRequestError, "invalid_value", "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, openai.BadRequestError,
         "invalid_value", "messages[0].role"),
        ({"max_tokens": 10**9}, openai.BadRequestError, "context_length_exceeded", "messages"),
    ]
    for more, kind, code, param in rows:
        for stream in (False, True):
            try:
                api.chat.completions.create(**{**ask("Hi"), **more, "stream": stream})
                c.check(f"{more} raises", False)
            except kind as error:
                c.check(f"{more} raises", error.code == code and error.param == param,
                        f"{error.code} {error.param}")
                c.check("no retry asked", error.response.headers["x-should-retry"] == "false")


ALL = [chat_same_streamed, tools_same_streamed, completions_same_streamed, models, seeds_repeat,
       wrong_requests_raise]
