// What is decided from a request's head alone: route, host, key, size and media type.
#pragma once
#include <microhttpd.h>
#include <stdbool.h>
#include "serve/exchange.h"

// Fills x's route and headers, or its refusal. True: the refusal must go out before the body.
bool lf_admit(struct lf_exchange *x, struct MHD_Connection *connection, const char *method,
              const char *url);
