// The one binary: dispatches to a command and turns its status into the exit code.
#include <stdio.h>
#include <string.h>
#include "cli/command.h"

static const struct {
    const char *name;
    lf_command_fn *run;
    const char *what;
} commands[] = {
    {"serve", lf_command_serve, "answer OpenAI clients over HTTP, with a chat page"},
    {"run", lf_command_run, "one reply on the terminal, or a chat"},
    {"plan", lf_command_plan, "the memory that serving needs, and whether it fits"},
    {"info", lf_command_info, "what a checkpoint is and what can be served of it"},
    {"tokenize", lf_command_tokenize, "text to ids and back"},
    {"score", lf_command_score, "log-probability of each token of a text, perplexity"},
    {"contract", lf_command_contract, "every kernel against its contract, planted faults included"},
    {"verify", lf_command_verify, "a checkpoint's layers against float64, stage by stage"},
    {"bench", lf_command_bench, "measure a running server and compare its replies"},
};

static void print_help(FILE *to) {
    fputs("lanefold " LF_VERSION ": an exact inference server for DeepSeek-V4.1-Flash\n\n"
          "usage: lanefold COMMAND [MODEL] [options]\n\n", to);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].what);
    fputs("\nMODEL is a checkpoint folder or a hub name; without it the demo model is used.\n"
          "lanefold COMMAND --help lists a command's options.\n", to);
}

static int exit_code(enum lf_status status) {
    return status == LF_E_USAGE ? 2 : status == LF_E_ABSENT ? 3 : status == LF_E_DEVICE ? 70 : 1;
}

int main(int argc, char **argv) {
    struct lf_error err = LF_ERROR_INIT;
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "help")) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "version")) {
        puts("lanefold " LF_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(name, commands[i].name))
            continue;
        if (commands[i].run(argc - 1, argv + 1, &err) == LF_OK)
            return 0;
        if (*err.text)
            fprintf(stderr, "lanefold %s: %s\n", name, err.text);
        return exit_code(err.status);
    }
    if (*name)
        fprintf(stderr, "lanefold: unknown command %s\n\n", name);
    print_help(stderr);
    return 2;
}
