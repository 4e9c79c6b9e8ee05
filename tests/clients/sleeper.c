/* A command that leaves a descendant behind on purpose: a second process in a session of its own,
 * whose parent is gone. Every process keeps the arguments, so that a test can find them by one. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    (void)argv;
    if (argc < 2) return 2;
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            for (;;) pause();
        }
        _exit(0);
    }
    for (;;) pause();
}
