/** When an hourly figure was computed: `Updated 18:09 UTC, every hour.` */
export const Updated = ({ at, what }: { at: string; what?: string }) => (
  <p class="soft" title={`${at.slice(0, 19).replace("T", " ")} UTC`}>
    {what === undefined ? "" : `${what}: `}
    {what === undefined ? "Updated" : "updated"} {at.slice(11, 16)} UTC, every hour.
  </p>
);
