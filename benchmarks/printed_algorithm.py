"""Algorithm 1 of the paper, line by line as it is printed, to be timed against.

Yuan Gao and Mu Qiao, "Reach Measurement, Optimization and Frequency Capping In Targeted Online
Advertising Under k-Anonymity", appendix, "Streaming Algorithm for Reach Measurement".
"""

from collections.abc import Sequence

__all__ = ["GroupLevelAlgorithm", "PrintedAlgorithm"]


class PrintedAlgorithm:
    """A counter per user and a table f[l, t] that is filled when first needed.

    `targeted_members[j]` is U_j, the targeted users of group j; all groups have size k.
    """

    def __init__(
        self,
        targeted_members: Sequence[Sequence[int]],
        user_count: int,
        group_size: int,
        cap: int,
        request_count: int,
    ) -> None:
        k, c = group_size, cap
        self.members = targeted_members
        self.cap = c
        self.stay = 1.0 - 1.0 / k
        # Set n[i] = 0 for i = 1, ..., N
        self.n = [0] * user_count
        # Set f[l, t] = 0 for l = 0, ..., c; t = 0, ..., T
        self.f = [[0.0] * (max(request_count, c) + 1) for _ in range(c + 1)]
        # Set f[l, l] = (1/k)^l for l = 0, ..., c
        for ell in range(c + 1):
            self.f[ell][ell] = (1.0 / k) ** ell
        # Set R[m] = 0 for m = 1, ..., c (R[0] is not used)
        self.R = [0.0] * (c + 1)

    def win(self, group: int) -> None:
        """The campaign wins a request from this group. O(kc²)."""
        n, f, R, c, stay = self.n, self.f, self.R, self.cap, self.stay  # noqa: N806 - as printed
        for i in self.members[group]:
            n[i] += 1
            for ell in range(c + 1):
                if n[i] > ell and f[ell][n[i]] == 0.0:
                    f[ell][n[i]] = f[ell][n[i] - 1] * n[i] / (n[i] - ell) * stay
                for m in range(ell + 1, c + 1):
                    R[m] += (m - ell) * (f[ell][n[i] - 1] - f[ell][n[i]])

    @property
    def reach(self) -> dict[int, float]:
        """The output: expected reach at every frequency cap from 1 to c."""
        return {m: self.R[m] for m in range(1, self.cap + 1)}


class GroupLevelAlgorithm(PrintedAlgorithm):
    """The same for groups that do not overlap, "conducted on the group level instead": O(c²).

    The paper names this shortcut without printing it. All members of a group have one count, so
    the change of one of them is multiplied by their number; user i is here group j.
    """

    def __init__(
        self,
        targeted_counts: Sequence[int],
        group_size: int,
        cap: int,
        request_count: int,
    ) -> None:
        alone = [(j,) for j in range(len(targeted_counts))]
        super().__init__(alone, len(alone), group_size, cap, request_count)
        self.targeted_counts = targeted_counts

    def win(self, group: int) -> None:
        """The campaign wins a request from this group. O(c²)."""
        n, f, R, c, stay = self.n, self.f, self.R, self.cap, self.stay  # noqa: N806 - as printed
        people = self.targeted_counts[group]
        n[group] += 1
        now = n[group]
        for ell in range(c + 1):
            if now > ell and f[ell][now] == 0.0:
                f[ell][now] = f[ell][now - 1] * now / (now - ell) * stay
            for m in range(ell + 1, c + 1):
                R[m] += people * (m - ell) * (f[ell][now - 1] - f[ell][now])
