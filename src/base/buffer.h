// Growable bytes and token ids. A failed allocation is remembered in .failed and checked once.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "lanefold.h"

void lf_buffer_add(struct lf_buffer *buffer, const void *bytes, size_t len);
void lf_buffer_add_text(struct lf_buffer *buffer, const char *text);
void lf_buffer_printf(struct lf_buffer *buffer, const char *format, ...) LF_PRINTF(2, 3);

void lf_ids_add(struct lf_ids *ids, uint32_t id);
void lf_ids_add_all(struct lf_ids *ids, const uint32_t *id, size_t len);
