/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses as text, and the local interfaces that own them. */
#ifndef TOOLS_ADDRESS_H
#define TOOLS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define ADDRESS_TEXT 64

socklen_t address_bytes(const struct sockaddr_storage *addr);

/* Parses a numeric address, "10.0.0.1" or "fe80::1%eth0". Does no name lookup. Returns false if
 * `text` is not one. */
bool address_parse(const char *text, int port, struct sockaddr_storage *addr);

/* Prints the address without its port; IPv4-mapped IPv6 as IPv4. Returns `text`, of ADDRESS_TEXT bytes. */
const char *address_print(const struct sockaddr_storage *addr, char *text);

/* The bytes of the IP address in network order, 4 or 16 of them. */
const unsigned char *address_ip(const struct sockaddr_storage *addr, size_t *bytes);
/* Whether the IP addresses are equal, without regard to ports. */
bool address_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

int address_port(const struct sockaddr_storage *addr);
void address_set_port(struct sockaddr_storage *addr, int port);

/* The addresses of the two ends of a connection, family 0 if they have none. Return whether they have. */
bool address_own(int fd, struct sockaddr_storage *addr);
bool address_peer(int fd, struct sockaddr_storage *addr);

/* Converts an IPv4-mapped IPv6 address to IPv4. */
void address_plain(struct sockaddr_storage *addr);

bool address_is_loopback(const struct sockaddr_storage *addr);

/* True for an address of one host: not unspecified, multicast, reserved or broadcast (255.255.255.255). */
bool address_is_unicast(const struct sockaddr_storage *addr);

/* True for a loopback address, or one that an interface of this host has. */
bool address_is_local(const struct sockaddr_storage *addr);

/* True for a numeric address that other hosts can connect to: unicast, and not loopback. */
bool address_is_dialled(const char *text);

/*
 * Listens for TCP at the address; `queue` as in listen(2). *addr receives the actual address and port. Returns the
 * non-blocking socket, or a negative errno. An IPv6 wildcard also takes IPv4.
 */
int address_listen(struct sockaddr_storage *addr, int queue);

/* Finds the local interface that has this address. Writes its name (IFNAMSIZ bytes; "" = none) and
 * returns its MTU, or 0 if unknown. */
int address_interface(const struct sockaddr_storage *addr, char *name);

/* True if the interface's driver is that of a container or virtual machine, so that no cable is visible. */
bool interface_is_virtual(const char *name);

#endif
