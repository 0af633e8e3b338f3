// The one binary: dispatches to a command and turns its status into the exit code.
#include <stdio.h>

int main(int argc, char **argv) {
    (void)argc;
    (void)argv;
    puts("lanefold " LF_VERSION);
    return 0;
}
