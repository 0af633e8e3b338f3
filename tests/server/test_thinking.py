"""thinking_budget on the demo model: the forced close, alone, together, drafted and plain."""
from concurrent.futures import ThreadPoolExecutor

CLOSE = 2289  # </think> of the demo
QUESTIONS = ["What is 47 + 38?", "Sort the words: turtle peach grape"]


def ask(server, question, temperature, budget=None, draft=True, **more):
    body = {"messages": [{"role": "user", "content": question}], "temperature": temperature,
            "seed": 5, "draft": draft, "return_token_ids": True, "max_tokens": 60,
            "thinking": {"type": "enabled"}, **more}
    if budget is not None:
        body["thinking_budget"] = budget
    status, _, reply = server.post("/v1/chat/completions", body)
    if status != 200:
        return [status], 0, str(reply), []
    usage = reply["usage"]["completion_tokens_details"]["reasoning_tokens"]
    choice = reply["choices"][0]
    rows = (choice["logprobs"] or {}).get("reasoning_content")
    return reply["lanefold"]["token_ids"], usage, choice["message"]["content"], rows


def every_budget(c, server):
    for question in QUESTIONS:
        for temperature in (0, 1.3):
            free, used, _, _ = ask(server, question, temperature)
            c.check("0 is no budget", ask(server, question, temperature, 0)[0] == free)
            for budget in range(1, used + 2):
                ids, reasoning, content, _ = ask(server, question, temperature, budget)
                name = f"{question} T {temperature} budget {budget}"
                if budget < used:
                    c.check("the reply before the close is the free one",
                            ids[:budget] == free[:budget], name)
                    c.check("the close comes at its index", ids[budget] == CLOSE, name)
                    c.check("usage counts it", reasoning == budget + 1, name)
                    c.check("content goes on", bool(content), name)
                else:
                    c.check("a budget that is not reached changes nothing", ids == free, name)


def budget_together_and_plain(c, server):
    jobs = [(q, t, b, d) for q in QUESTIONS for t in (0, 1.3) for b in (1, 3, 6)
            for d in (True, False)]
    alone = [ask(server, *job, logprobs=True, top_logprobs=3) for job in jobs]
    with ThreadPoolExecutor(len(jobs)) as pool:
        asked = [pool.submit(ask, server, *job, logprobs=True, top_logprobs=3) for job in jobs]
        together = [job.result() for job in asked]
    for job, one, other in zip(jobs, alone, together):
        c.check("together = alone, with their log-probabilities", one == other, str(job))
    for i in range(0, len(jobs), 2):
        c.check("drafted = plain", alone[i] == alone[i + 1], str(jobs[i]))


def wrong_budgets(c, server):
    for value in (-1, "8", True, 1.5):
        status, _, reply = server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hi"}], "thinking_budget": value})
        c.check("a wrong budget is refused by name",
                status == 400 and reply["error"]["param"] == "thinking_budget", str(value))


ALL = [every_budget, budget_together_and_plain, wrong_budgets]
