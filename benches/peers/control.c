/* Tries what a confined program must not be able to do, and prints what came of it; ends with 0.
 * Compiled with WRITE, READ (paths outside of what the program was given) and PORT (a listener on the
 * loopback of the host). Whether the file is there and the listener was reached is looked up outside. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
  static const char *const write_to[] = {WRITE}, *const read_from[] = {READ};
  puts("RAN");
  for (unsigned i = 0; i < sizeof write_to / sizeof *write_to; i++) {
    int fd = open(write_to[i], O_CREAT | O_WRONLY, 0644);
    if (fd >= 0) close(fd);
  }
  for (unsigned i = 0; i < sizeof read_from / sizeof *read_from; i++) {
    char text[256];
    int fd = open(read_from[i], O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
    if (n > 0) printf("%.*s\n", (int)n, text);
    if (fd >= 0) close(fd);
  }
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (s >= 0 && connect(s, (struct sockaddr *)&to, sizeof to) == 0) puts("CONNECTED");
  return 0;
}
