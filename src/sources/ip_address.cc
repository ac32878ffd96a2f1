#include "sources/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace aril {
namespace {

struct Block4 {
  uint32_t prefix;
  int bits;
};

constexpr uint32_t Quad(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}

constexpr Block4 kPrivate4[] = {{Quad(10, 0, 0, 0), 8},
                                {Quad(100, 64, 0, 0), 10},  // shared: carriers' NAT
                                {Quad(127, 0, 0, 0), 8},
                                {Quad(172, 16, 0, 0), 12},
                                {Quad(192, 168, 0, 0), 16}};
constexpr Block4 kNever4[] = {{Quad(0, 0, 0, 0), 8},       {Quad(169, 254, 0, 0), 16},
                              {Quad(192, 0, 0, 0), 24},    {Quad(192, 0, 2, 0), 24},
                              {Quad(192, 88, 99, 0), 24},  {Quad(198, 18, 0, 0), 15},
                              {Quad(198, 51, 100, 0), 24}, {Quad(203, 0, 113, 0), 24},
                              {Quad(224, 0, 0, 0), 4},     {Quad(240, 0, 0, 0), 4}};

bool IsIn(uint32_t address, std::span<const Block4> blocks) {
  return std::ranges::any_of(blocks, [&](const Block4& block) {
    return (address ^ block.prefix) >> (32 - block.bits) == 0;
  });
}

AddressReach Reach4(uint32_t address) {
  if (IsIn(address, kNever4)) return AddressReach::kNever;
  return IsIn(address, kPrivate4) ? AddressReach::kPrivate : AddressReach::kPublic;
}

using Bytes6 = std::array<uint8_t, 16>;

struct Block6 {
  Bytes6 prefix;
  int bits;
};

constexpr Block6 kPrivate6[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128},  // loopback
    {{0xFC}, 7},                                              // unique local
};
constexpr Block6 kGlobalUnicast6 = {{0x20}, 3};
// Of it, what is not: protocol assignments with Teredo and ORCHID, documentation, 6to4.
constexpr Block6 kNever6[] = {{{0x20, 0x01, 0x00}, 23},
                              {{0x20, 0x01, 0x0D, 0xB8}, 32},
                              {{0x20, 0x02}, 16},
                              {{0x3F, 0xFF, 0x00}, 20}};

bool IsIn(const Bytes6& address, const Block6& block) {
  for (int bit = 0; bit < block.bits; ++bit) {
    const auto byte = static_cast<size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if (((address[byte] ^ block.prefix[byte]) & mask) != 0) return false;
  }
  return true;
}

bool IsIn(const Bytes6& address, std::span<const Block6> blocks) {
  return std::ranges::any_of(blocks, [&](const Block6& block) { return IsIn(address, block); });
}

AddressReach Reach6(const Bytes6& address) {
  if (IsIn(address, kPrivate6)) return AddressReach::kPrivate;
  const bool is_public = IsIn(address, kGlobalUnicast6) && !IsIn(address, kNever6);
  return is_public ? AddressReach::kPublic : AddressReach::kNever;
}

}  // namespace

AddressReach ReachOf(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in in = {};
    std::memcpy(&in, &address, sizeof(in));
    return Reach4(ntohl(in.sin_addr.s_addr));
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 in6 = {};
    std::memcpy(&in6, &address, sizeof(in6));
    Bytes6 bytes;
    std::memcpy(bytes.data(), &in6.sin6_addr, bytes.size());
    return Reach6(bytes);
  }
  return AddressReach::kNever;
}

std::string AddressText(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.sa_family == AF_INET) {
    sockaddr_in in = {};
    std::memcpy(&in, &address, sizeof(in));
    inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 in6 = {};
    std::memcpy(&in6, &address, sizeof(in6));
    inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof(text));
  }
  return text;
}

}  // namespace aril
