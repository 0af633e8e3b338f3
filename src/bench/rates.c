#include "bench/rates.h"

#include <math.h>

double lf_rates_tokens(const struct lf_answer *reply, double start_s, double end_s) {
    double all = 0, within = 0;
    for (size_t i = 0; i < reply->pieces; i++) {
        const struct lf_answer_piece *piece = &reply->piece[i];
        all += piece->chars;
        within += piece->at_s > start_s && piece->at_s <= end_s ? piece->chars : 0;
    }
    return all > 0 && reply->tokens > 0 ? (double)reply->tokens * within / all : 0;
}

double lf_rates_aggregate(const struct lf_client *client, size_t n) {
    double first = INFINITY, last = -INFINITY, tokens = 0;
    for (size_t i = 0; i < n; i++) {
        const struct lf_answer *reply = &client[i].reply;
        if (!lf_answer_measured(reply))
            continue;
        first = fmin(first, reply->first_s);
        last = fmax(last, reply->last_s);
        tokens += (double)(reply->tokens - 1);
    }
    return last > first ? tokens / (last - first) : (double)NAN;
}

double lf_rates_steady(const struct lf_client *client, size_t n) {
    double start = -INFINITY, end = INFINITY, tokens = 0;
    for (size_t i = 0; i < n; i++) {
        if (!lf_answer_measured(&client[i].reply))
            return NAN;
        start = fmax(start, client[i].reply.first_s);
        end = fmin(end, client[i].reply.last_s);
    }
    for (size_t i = 0; i < n && end > start; i++)
        tokens += lf_rates_tokens(&client[i].reply, start, end);
    return end > start ? tokens / (end - start) : (double)NAN;
}
