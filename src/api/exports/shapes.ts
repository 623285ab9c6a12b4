export const exampleUserId = "user_42";
