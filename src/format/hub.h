// The Hugging Face hub cache: a model name to its folder (checkpoint.md 8.3). Nothing is fetched.
#pragma once
#include <stddef.h>
#include "base/error.h"

enum { LF_HUB_COMMAND_BYTES = 384 };

// The command that fetches what a folder lacks; file NULL: everything.
void lf_hub_command(char command[LF_HUB_COMMAND_BYTES], const char *folder, const char *file);
