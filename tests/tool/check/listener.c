/* SPDX-License-Identifier: Apache-2.0 */
/* Listens on an ephemeral port of an IPv4 address, prints the port, and waits until it is killed. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (argc != 2 || fd < 0 || inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1 ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len))
		return 1;
	printf("%d\n", ntohs(addr.sin_port));
	fflush(stdout);
	pause();
	return 0;
}
