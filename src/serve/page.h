// The bytes of chat.html; tools/embed writes their definition when the program is built.
#pragma once
#include <stddef.h>

extern const char lf_page_html[];
extern const size_t lf_page_html_bytes;
